/* The commands, a row each, in the order of the overview: the name; SHOWN, the members of its mega_command
 * (megalith/config.h), of which program.c makes a table; RUN, those of its cli_row, of which main.c makes one. Both
 * include this file, after they have defined COMMAND, SHOWN and RUN; commands.h makes the declarations of it. */

COMMAND(
    pretrain_gpt,
    SHOWN(.bit = FOR_GPT, .aliases = "pretrain_gpt2|pretrain_gpt_core|pretrain_zeropp_gpt|finetune_gpt",
          .summary = "trains a GPT", .scripts = "train|train_gpt|train_gpt2|finetune",
          .replaces = "pretrain_gpt|pretrain_gpt2|pretrain_gpt_core|pretrain_zeropp_gpt|finetune_gpt"),
    RUN(.run = mega_command_pretrain_gpt, .is_planned = true, .outlives_reader = true, .log_to_output = true,
        .example = "megalith pretrain_gpt --preset tiny --micro-batch-size 8 --train-iters 200 --lr 1e-3 --data-path "
                   "my_text_document \\\n"
                   "    --vocab-file tokenizer/vocab.json --merge-file tokenizer/merges.txt --save checkpoints "
                   "--save-interval 100"))
COMMAND(run_clm,
        SHOWN(.bit = FOR_CLM, .aliases = "run_clm_no_trainer|megatron_lm_gpt_pretraining",
              .summary = "trains a GPT on text files, in epochs, with the options of transformers' script",
              .replaces = "run_clm|run_clm_no_trainer|megatron_lm_gpt_pretraining"),
        RUN(.run = mega_command_run_clm, .is_planned = true, .outlives_reader = true, .log_to_output = true,
            .example = "megalith run_clm --config_name gpt2 --tokenizer_name tokenizer --train_file my.txt "
                       "--num_train_epochs 3 "
                       "--output_dir my_model"))
COMMAND(pretrain_bert, SHOWN(.bit = FOR_BERT, .aliases = "", .summary = "trains a BERT", .replaces = "pretrain_bert"),
        RUN(.run = mega_command_pretrain_bert, .is_planned = true, .outlives_reader = true, .log_to_output = true,
            .example =
                "megalith pretrain_bert --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 \\\n"
                "    --micro-batch-size 8 --train-iters 1000 --lr 1e-3 --data-path my_text_sentence --vocab-file "
                "bert-vocab.txt "
                "--save checkpoints"))
COMMAND(
    pretrain_t5, SHOWN(.bit = FOR_T5, .aliases = "", .summary = "trains a T5", .replaces = "pretrain_t5"),
    RUN(.run = mega_command_pretrain_t5, .is_planned = true, .outlives_reader = true, .log_to_output = true,
        .example = "megalith pretrain_t5 --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 \\\n"
                   "    --decoder-seq-length 64 --micro-batch-size 8 --train-iters 1000 --lr 1e-3 --data-path "
                   "my_text_sentence \\\n"
                   "    --vocab-file bert-vocab.txt --vocab-extra-ids 100 --save checkpoints"))
COMMAND(plan,
        SHOWN(.bit = FOR_PLAN, .aliases = "", .summary = "parameters, memory and cost of a run, without running it",
              .positional = "[COMMAND]"),
        RUN(.run = mega_command_plan, .example = "megalith plan --preset gpt2 --micro-batch-size 4"))
COMMAND(
    generate_samples_gpt,
    SHOWN(.bit = FOR_GENERATE, .aliases = "generate_samples_gpt2|generate_samples|generate_text|generate|sample|infer",
          .summary = "text from a trained GPT", .scripts = "run_generation|inference|complete",
          .replaces = "generate_samples_gpt|generate_samples_gpt2|generate_samples"),
    RUN(.run = mega_command_generate_samples_gpt, .is_planned = true,
        .example = "megalith generate_samples_gpt --load checkpoints --prompt 'In the beginning' --out-seq-length 64"))
COMMAND(run_text_generation_server,
        SHOWN(.bit = FOR_SERVER, .aliases = "run_text_generation_server_345M|text_generation_server",
              .summary = "answers prompts over HTTP", .scripts = "serve|server",
              .replaces = "run_text_generation_server|run_text_generation_server_345M|text_generation_server"),
        RUN(.run = mega_command_run_text_generation_server,
            .example = "megalith run_text_generation_server --load checkpoints --port 5000"))
COMMAND(tasks,
        SHOWN(.bit = FOR_TASKS, .aliases = "tasks/main|tasks_main|run_tasks",
              .summary = "evaluates a trained model on text, or on samples with labels, which it may learn before",
              .scripts = "eval|evaluate|lm_eval", .replaces = "tasks/main"),
        RUN(.run = mega_command_tasks, .is_planned = true,
            .example = "megalith tasks --task LM_LOSS --load checkpoints --valid-data my.txt"))
COMMAND(merge_mp_partitions,
        SHOWN(.bit = FOR_MERGE, .aliases = "",
              .summary = "copies a checkpoint, which is whole: there are no parts to merge",
              .replaces = "merge_mp_partitions"),
        RUN(.run = mega_command_merge_mp_partitions,
            .example = "megalith merge_mp_partitions --model-type GPT --load checkpoints --save merged"))
COMMAND(embed,
        SHOWN(.bit = FOR_EMBED, .aliases = "", .summary = "the mean embedding of each text by an encoder such as BERT"),
        RUN(.run = mega_command_embed,
            .example = "megalith embed --load bert --input sentences.txt --output sentences.npy"))
COMMAND(fill_mask,
        SHOWN(.bit = FOR_FILL, .aliases = "fill-mask",
              .summary = "the tokens that fit the masks of a text, by an encoder such as BERT", .scripts = "fill"),
        RUN(.run = mega_command_fill_mask,
            .example = "megalith fill_mask --load bert --text 'Paris is the [MASK] of France.'"))
COMMAND(preprocess_data,
        SHOWN(.bit = FOR_PREPROCESS, .aliases = "preprocess", .summary = "text files to an indexed data set",
              .scripts = "prepare|prepare_data", .replaces = "preprocess_data"),
        RUN(.run = mega_command_preprocess_data, .is_planned = true, .outlives_reader = true,
            .example = "megalith preprocess_data --input my.txt --output-prefix my --append-eod \\\n"
                       "    --vocab-file tokenizer/vocab.json --merge-file tokenizer/merges.txt"))
COMMAND(train_tokenizer,
        SHOWN(.bit = FOR_TRAIN_TOKENIZER, .aliases = "", .summary = "makes a vocabulary from text files"),
        RUN(.run = mega_command_train_tokenizer, .is_planned = true, .outlives_reader = true,
            .example = "megalith train_tokenizer --input my.txt --vocab-size 4096 --output tokenizer"))
COMMAND(tokenize,
        SHOWN(.bit = FOR_TOKENIZE, .aliases = "", .summary = "shows the ids and pieces of a text, both ways",
              .positional = "[TEXT]"),
        RUN(.run = mega_command_tokenize, .is_planned = true,
            .example = "megalith tokenize --tokenizer-type ByteTokenizer --text 'Hello, world'"))
COMMAND(data,
        SHOWN(.bit = FOR_DATA, .aliases = "", .summary = "shows, checks and merges indexed data sets",
              .positional = "show|info|verify|merge PREFIX…"),
        RUN(.run = mega_command_data, .example = "megalith data info my_text_document"))
COMMAND(plot,
        SHOWN(.bit = FOR_PLOT, .aliases = "", .summary = "draws or compares metrics files", .positional = "FILE…"),
        RUN(.run = mega_command_plot, .example = "megalith plot metrics.jsonl"))
COMMAND(report,
        SHOWN(.bit = FOR_REPORT, .aliases = "", .summary = "one HTML page about one training or several",
              .positional = "RUN…"),
        RUN(.run = mega_command_report, .example = "megalith report metrics.jsonl -o report.html"))
COMMAND(compare_configurations,
        SHOWN(.aliases = "bench_configurations",
              .summary = "speed and memory of one model with each of several DeepSpeed JSONs"),
        RUN(.run = mega_command_compare_configurations,
            .example = "megalith compare_configurations zero1.json zero3.json --ranks 2 --preset tiny --lr 1e-3"))
COMMAND(new,
        SHOWN(.bit = FOR_NEW, .aliases = "", .summary = "writes a C program of your own that trains on a text file",
              .positional = "PROJECT"),
        RUN(.run = mega_command_new, .example = "megalith new poet --text my.txt"))
COMMAND(config,
        SHOWN(.bit = FOR_CONFIG, .aliases = "", .summary = "writes Accelerate's YAML by its questions",
              .positional = "[default]"),
        RUN(.run = mega_command_config))
COMMAND(doctor, SHOWN(.aliases = "", .summary = "what this machine has and what will be used"),
        RUN(.run = mega_command_doctor))
COMMAND(measure_device, SHOWN(.aliases = "", .summary = "what a device can do: copies, products, attention, a step"),
        RUN(.run = mega_command_measure_device, .example = "megalith measure-device --device cuda --output h100.json"))
COMMAND(help, SHOWN(.aliases = "", .summary = "the commands; help COMMAND shows one, help presets the shapes"),
        RUN(.run = mega_command_help))
COMMAND(version, SHOWN(.aliases = "", .summary = "the version"), RUN(.run = mega_command_version))
COMMAND(merge_datasets,
        SHOWN(.aliases = "", .summary = "joins indexed data sets: data merge", .replaces = "merge_datasets"),
        RUN(.run = mega_command_merge_datasets, .outlives_reader = true,
            .example = "megalith merge_datasets --input FOLDER --output-prefix all"))
COMMAND(checkpoint,
        SHOWN(.aliases =
                  "checkpoint_util|checkpoint_reshaping_and_interoperability|checkpoint/util|convert|export|export_hf",
              .summary = "reshapes and converts checkpoints; none here needs it",
              .replaces = "checkpoint_util|checkpoint_reshaping_and_interoperability|checkpoint/util"),
        RUN(.instead = "a checkpoint of this program loads under any layout and in Hugging Face without conversion: "
                       "SAVE/iter_N is a "
                       "folder that from_pretrained reads, and --load reads a folder of Hugging Face's"))
COMMAND(launch,
        SHOWN(.aliases =
                  "run|torchrun|deepspeed|accelerate|accelerate_launch|torch.distributed.launch|torch.distributed.run|"
                  "accelerate.commands.launch|deepspeed.launcher.runner",
              .summary = "starts several ranks; also as torchrun, deepspeed, accelerate launch"),
        RUN(.run = mega_command_launch, .outlives_reader = true, .example = MEGA_LAUNCH_EXAMPLE))
