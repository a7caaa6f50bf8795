/* Matrix products of attention by float multiply-adds: the definitions that attention_tile_body.c needs from the file
 * that includes it. */
#define PAIRS             0
#define PRODUCTS_BY_TILES 0

ALWAYS void products_begin(void)
{
}

ALWAYS void products_end(void)
{
}
