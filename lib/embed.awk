# embed.awk: turns sql/<engine>/*.sql into a C table. What stands above the line "-- statement" is for people who
# run the file by hand (sample values for its parameters); the library binds its own.
# usage: awk -v table=rq_sql_sqlite -f embed.awk files > out.c
BEGIN {
    print "/* Made by the build from the .sql files; see lib/embed.awk. */"
    print "#include \"driver.h\"\n"
    print "const rq_sql " table "[] = {"
}
FNR == 1 {
    if (open) print "    },"
    name = FILENAME
    sub(/.*\//, "", name)
    sub(/\.sql$/, "", name)
    printf "    { \"%s\",\n", name
    open = 1
    inside = 0
}
inside {
    if (index($0, "\\")) {
        print FILENAME ":" FNR ": a backslash is not embedded" > "/dev/stderr"
        exit 1
    }
    gsub(/"/, "\\\"")
    print "      \"" $0 "\\n\""
}
/^-- statement$/ { inside = 1 }
END {
    if (open) print "    },"
    print "    { NULL, NULL }\n};"
}
