# Instruction sets of single files; encoder.c picks between them at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(files ${CMAKE_SOURCE_DIR}/src/text)
    set_source_files_properties(${files}/encode_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mbmi;-mbmi2")
    set_source_files_properties(${files}/encode_avx512.c PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mbmi;-mbmi2;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq")
endif()
# Readers of files, which run once: small rather than fast.
foreach(file tokenizer_json pipeline_json pipeline_model pipeline sentencepiece tiktoken regex_translate char_set tokenizer_create tokenizer_save tokenizer_made
        tokenizer_files tokenizer options json_cursor documents documents_find documents_stream encoding trainer trainer_read decoder split regex
        pretokenize_lines detokenize punkt_files punkt_train
        trie bert_files base64 sentencepiece_folder unigram_files unigram_seed wordpiece_train)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/text/${file}.c PROPERTIES COMPILE_OPTIONS "${MEGA_SMALL}")
endforeach()
