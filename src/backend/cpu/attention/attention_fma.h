/* Products of attention by multiply-adds of floats: what attention_tile_body.c asks of the file that includes it. */
#define PAIRS             0
#define PRODUCTS_BY_TILES 0

ALWAYS void products_begin(void)
{
}

ALWAYS void products_end(void)
{
}
