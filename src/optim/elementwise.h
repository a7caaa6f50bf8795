/* Updates of elements by themselves, for the rows of optimizer_table.c; backend/optimizer_formulas.h has the
 * formulas. */
#ifndef MEGALITH_ELEMENTWISE_H
#define MEGALITH_ELEMENTWISE_H

#include "optimizer_row.h"

/* Runs the kernel of a formula on all elements of the work. */
void elementwise_run(const mega_queue *queue, const optimizer_work *w, mega_kernel_id formula);
/* Returns the arguments of that kernel. */
mega_formula_args elementwise_args(const optimizer_work *w, mega_kernel_id formula);
/* Returns where the device has the formula's numbers for these elements; the formula is one of the optimizer's row. */
const double *elementwise_numbers(const optimizer_work *w, mega_kernel_id formula);

#endif
