# Instruction sets of single files; models/encoder.c picks between them at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(files ${CMAKE_SOURCE_DIR}/src/text)
    set_source_files_properties(${files}/models/encode_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mbmi;-mbmi2")
    set_source_files_properties(${files}/models/encode_avx512.c PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mbmi;-mbmi2;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq")
endif()
# Readers of files, which run once: small rather than fast.
foreach(file options documents/detokenize documents/documents documents/documents_find documents/documents_stream
        documents/encoding models/decoder models/pretokenize_lines models/split models/trie sentences/punkt_files
        sentences/punkt_train tokenizer/base64 tokenizer/bert_files tokenizer/json_cursor tokenizer/pipeline
        tokenizer/pipeline_json tokenizer/pipeline_model tokenizer/sentencepiece tokenizer/sentencepiece_folder
        tokenizer/tiktoken tokenizer/tokenizer tokenizer/tokenizer_create tokenizer/tokenizer_files
        tokenizer/tokenizer_json tokenizer/tokenizer_made tokenizer/tokenizer_save training/trainer
        training/trainer_read training/unigram_files training/unigram_seed training/wordpiece_train unicode/char_set
        unicode/regex unicode/regex_translate)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/text/${file}.c PROPERTIES COMPILE_OPTIONS "${MEGA_SMALL}")
endforeach()
