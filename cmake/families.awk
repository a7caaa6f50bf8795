# Makes the list of families of the lines MEGA_FAMILY(PLACE, NAME) of src/families/models/*.c, in the order of places.
#   awk -v output=FILE.c -f families.awk src/families/models/*.c
/^MEGA_FAMILY\(/ {
    split($0, part, /[(,) ]+/)
    place = part[2] + 0
    if (place == 0 || part[3] == "") { print FILENAME ":" FNR ": error: MEGA_FAMILY(PLACE, NAME) is not in one line" >"/dev/stderr"; exit failed = 1 }
    if (place in name) { print FILENAME ":" FNR ": error: place " place " is that of " name[place] >"/dev/stderr"; exit failed = 1 }
    name[place] = part[3]
    for (i = ++count; i > 1 && places[i - 1] > place; i--) places[i] = places[i - 1]
    places[i] = place
}
END {
    if (failed) exit 1
    print "/* Made of src/families/models/ by cmake/families.awk. */\n#include \"megalith/family.h\"" >output
    for (i = 1; i <= count; i++) print "extern const mega_family mega_family_" name[places[i]] ";" >output
    print "const mega_family *const mega_families[] = {" >output
    for (i = 1; i <= count; i++) print "    &mega_family_" name[places[i]] "," >output
    print "    NULL};" >output
}
