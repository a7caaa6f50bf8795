/* Shared by the reader and the writer. */
#ifndef MEGA_YAML_IMPL_H
#define MEGA_YAML_IMPL_H

#include "megalith/yaml.h"

/* What a word without quotation marks means in YAML 1.1. */
typedef enum yaml_kind {
    YAML_TEXT,
    YAML_NULL,
    YAML_TRUE,
    YAML_FALSE,
    YAML_INT,   /* decimal */
    YAML_FLOAT, /* decimal */
    YAML_OTHER  /* a date, 0x1f, 010, 12:30, .inf, <<: no text, and nothing that a configuration needs */
} yaml_kind;
yaml_kind yaml_kind_of(const char *word);

#endif
