/* Moves logical tensors between memory and file: which part of one a rank holds, and how its numbers are converted. */
#ifndef MEGALITH_STATE_IMPL_H
#define MEGALITH_STATE_IMPL_H

#include "ckpt_impl.h"

#define STATE_BLOCK 64 /* rows and columns that are transposed at a time; rows of the file written at a time */

/* state_piece.c: the part of a tensor that a rank holds, as rectangles. A one-dimensional tensor is a single row. */
typedef struct mega_state_piece {
    int64_t row, col;             /* its corner in the tensor */
    int64_t rows, cols;           /* including padding */
    int64_t real_rows, real_cols; /* the rows and columns that exist in the file */
    int64_t at, pitch;            /* in memory, in elements: from `data` to the corner, and from row to row */
} mega_state_piece;
/* Returns rows and columns of the tensor in the file, in the orientation of the memory. */
void mega_state_extent(const mega_state_tensor *t, int64_t *rows, int64_t *cols);
/* Returns how many elements this rank holds, padding included; *width: those of a whole row of its slice. */
int64_t mega_state_held(const mega_state_tensor *t, int64_t *width);
bool mega_state_turned(const mega_param *p); /* whether rows of the file are columns in memory */
int64_t mega_state_pieces(const mega_state_tensor *t);
mega_state_piece mega_state_piece_get(const mega_state_tensor *t,
                                      int64_t index); /* rows or cols 0: no piece with this index */

/* Whether two records are parts of one tensor, which several parameters share. */
bool mega_state_is_shared(const mega_state_tensor *a, const mega_state_tensor *b);

/* state_move.c: converts n elements. */
void mega_state_convert(void *to, mega_dtype to_type, const void *from, mega_dtype from_type, int64_t n);
/* Copies n bytes with stores that bypass the caches; call mega_state_copy_end when everything is copied. */
void mega_state_copy(uint8_t *to, const uint8_t *from, size_t n);
void mega_state_copy_end(void);
/* Transposes: to[c * to_pitch + r] = from[r * from_pitch + c]; at most STATE_BLOCK rows and columns; pitches in
 * elements. */
void mega_state_turn(uint8_t *to, int64_t to_pitch, const uint8_t *from, int64_t from_pitch, int64_t rows, int64_t cols,
                     size_t size, bool past_caches);

#endif
