/* Stands in for a room that has no source file yet, so that its library exists. */
extern const int mega_empty_room;
const int mega_empty_room = 0;
