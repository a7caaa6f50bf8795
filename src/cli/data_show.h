/* What the files of `megalith data` share. */
#ifndef MEGA_CLI_DATA_SHOW_H
#define MEGA_CLI_DATA_SHOW_H

#include "megalith/config.h"
#include "megalith/indexed.h"
#include "megalith/status.h"

/* megalith data show PREFIX */
mega_status mega_data_show(const mega_config *cfg, const char *prefix);
/* Of all sequences of a document. */
int64_t mega_data_document_tokens(const mega_indexed *ix, int64_t document);

#endif
