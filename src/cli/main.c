/* The one program: `megalith COMMAND ARGS`. */
#include <stdio.h>

int main(void)
{
    printf("megalith " MEGA_VERSION "\n");
    return 0;
}
