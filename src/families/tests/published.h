/* config.json of published folders: their keys and values, with ' for ". A folder that is not here because it differs
 * only in its sizes is read as well. */
#ifndef MEGALITH_CKPT_PUBLISHED_H
#define MEGALITH_CKPT_PUBLISHED_H

typedef struct published_folder {
    const char *name, *json;
    int heads, kv_heads; /* what is read */
} published_folder;

#define FROM(version) "'torch_dtype':'bfloat16','transformers_version':'" version "','use_cache':true"
#define NINE_BY_FOUR  "1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0"
#define FULL_4        "'full_attention','full_attention','full_attention','full_attention'"
#define FULL_36       FULL_4 "," FULL_4 "," FULL_4 "," FULL_4 "," FULL_4 "," FULL_4 "," FULL_4 "," FULL_4 "," FULL_4
#define SUMMARY                                                                                                       \
    "'summary_activation':null,'summary_first_dropout':0.1,'summary_proj_to_labels':true,'summary_type':'cls_index'," \
    "'summary_use_proj':true"

static const published_folder published[] = {
    {"gpt2",
     "{'activation_function':'gelu_new','architectures':['GPT2LMHeadModel'],'attn_pdrop':0.1,'bos_token_id':50256,"
     "'embd_pdrop':0.1,'eos_token_id':50256,'initializer_range':0.02,'layer_norm_epsilon':1e-05,'model_type':'gpt2',"
     "'n_ctx':1024,'n_embd':768,'n_head':12,'n_layer':12,'n_positions':1024,'resid_pdrop':0.1," SUMMARY ","
     "'task_specific_params':{'text-generation':{'do_sample':true,'max_length':50}},'vocab_size':50257}",
     12, 12},
    {"gpt2-medium",
     "{'activation_function':'gelu_new','architectures':['GPT2LMHeadModel'],'attn_pdrop':0.1,'bos_token_id':50256,"
     "'embd_pdrop':0.1,'eos_token_id':50256,'initializer_range':0.02,'layer_norm_epsilon':1e-05,'model_type':'gpt2',"
     "'n_ctx':1024,'n_embd':1024,'n_head':16,'n_layer':24,'n_positions':1024,'n_special':0,"
     "'predict_special_tokens':true,'resid_pdrop':0.1," SUMMARY ",'vocab_size':50257}",
     16, 16},
    {"distilgpt2",
     "{'_num_labels':1,'activation_function':'gelu_new','architectures':['GPT2LMHeadModel'],'attn_pdrop':0.1,"
     "'bos_token_id':50256,'embd_pdrop':0.1,'eos_token_id':50256,'id2label':{'0':'LABEL_0'},'initializer_range':0.02,"
     "'label2id':{'LABEL_0':0},'layer_norm_epsilon':1e-05,'model_type':'gpt2','n_ctx':1024,'n_embd':768,'n_head':12,"
     "'n_layer':6,'n_positions':1024,'resid_pdrop':0.1," SUMMARY ",'vocab_size':50257}",
     12, 12},
    {"llama-7b",
     "{'architectures':['LlamaForCausalLM'],'bos_token_id':1,'eos_token_id':2,'hidden_act':'silu','hidden_size':4096,"
     "'initializer_range':0.02,'intermediate_size':11008,'max_position_embeddings':2048,'max_sequence_length':2048,"
     "'model_type':'llama','num_attention_heads':32,'num_hidden_layers':32,'pad_token_id':0,'rms_norm_eps':1e-06,"
     "'tie_word_embeddings':false,'vocab_size':32000," FROM("4.30.2") "}",
     32, 32},
    {"TinyLlama-1.1B",
     "{'architectures':['LlamaForCausalLM'],'bos_token_id':1,'eos_token_id':2,'hidden_act':'silu','hidden_size':2048,"
     "'initializer_range':0.02,'intermediate_size':5632,'max_position_embeddings':2048,'model_type':'llama',"
     "'num_attention_heads':32,'num_hidden_layers':22,'num_key_value_heads':4,'pretraining_tp':1,'rms_norm_eps':1e-05,"
     "'rope_scaling':null,'tie_word_embeddings':false,'vocab_size':32000," FROM("4.31.0.dev0") "}",
     32, 4},
    {"Llama-3.2-1B",
     "{'architectures':['LlamaForCausalLM'],'attention_bias':false,'attention_dropout':0.0,'bos_token_id':128000,"
     "'eos_token_id':[128001,128008,128009],'head_dim':64,'hidden_act':'silu','hidden_size':2048,"
     "'initializer_range':0.02,'intermediate_size':8192,'max_position_embeddings':131072,'mlp_bias':false,"
     "'model_type':'llama','num_attention_heads':32,'num_hidden_layers':16,'num_key_value_heads':8,'pretraining_tp':1,"
     "'rms_norm_eps':1e-05,'rope_scaling':{'factor':32.0,'high_freq_factor':4.0,'low_freq_factor':1.0,"
     "'original_max_position_embeddings':8192,'rope_type':'llama3'},'rope_theta':500000.0,'tie_word_embeddings':true,"
     "'unsloth_fixed':true,'vocab_size':128256," FROM("4.45.0.dev0") "}",
     32, 8},
    {"SmolLM2-135M",
     "{'architectures':['LlamaForCausalLM'],'attention_bias':false,'attention_dropout':0.0,'bos_token_id':0,"
     "'eos_token_id':0,'hidden_act':'silu','hidden_size':576,'initializer_range':0.041666666666666664,"
     "'intermediate_size':1536,'is_llama_config':true,'max_position_embeddings':8192,'model_type':'llama',"
     "'num_attention_heads':9,'num_hidden_layers':30,'num_key_value_heads':3,'pretraining_tp':1,'rms_norm_eps':1e-05,"
     "'rope_interleaved':false,'rope_scaling':null,'rope_theta':100000,'tie_word_embeddings':true,"
     "'transformers.js_config':{'kv_cache_dtype':{'q4f16':'float16'}},'vocab_size':49152," FROM("4.40.1") "}",
     9, 3},
    {"Mistral-7B-v0.1",
     "{'architectures':['MistralForCausalLM'],'bos_token_id':1,'eos_token_id':2,'hidden_act':'silu','hidden_size':4096,"
     "'initializer_range':0.02,'intermediate_size':14336,'max_position_embeddings':32768,'model_type':'mistral',"
     "'num_attention_heads':32,'num_hidden_layers':32,'num_key_value_heads':8,'rms_norm_eps':1e-05,"
     "'rope_theta':10000.0,'sliding_window':4096,'tie_word_embeddings':false,'vocab_size':32000," FROM("4.34.0") "}",
     32, 8},
    {"Qwen2.5-0.5B",
     "{'architectures':['Qwen2ForCausalLM'],'attention_dropout':0.0,'bos_token_id':151643,'eos_token_id':151643,"
     "'hidden_act':'silu','hidden_size':896,'initializer_range':0.02,'intermediate_size':4864,"
     "'max_position_embeddings':32768,'max_window_layers':24,'model_type':'qwen2','num_attention_heads':14,"
     "'num_hidden_layers':24,'num_key_value_heads':2,'rms_norm_eps':1e-06,'rope_theta':1000000.0,"
     "'sliding_window':32768,'tie_word_embeddings':true,'use_mrope':false,'use_sliding_window':false,"
     "'vocab_size':151936," FROM("4.40.1") "}",
     14, 2},
    {"DeepSeek-R1-Distill-Qwen-7B",
     "{'architectures':['Qwen2ForCausalLM'],'attention_dropout':0.0,'bos_token_id':151643,'eos_token_id':151643,"
     "'hidden_act':'silu','hidden_size':3584,'initializer_range':0.02,'intermediate_size':18944,"
     "'max_position_embeddings':131072,'max_window_layers':28,'model_type':'qwen2','num_attention_heads':28,"
     "'num_hidden_layers':28,'num_key_value_heads':4,'rms_norm_eps':1e-06,'rope_theta':10000,'sliding_window':4096,"
     "'tie_word_embeddings':false,'use_mrope':false,'use_sliding_window':false,'vocab_size':152064," FROM("4.44.0") "}",
     28, 4},
    {"Qwen3-0.6B",
     "{'architectures':['Qwen3ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,'bos_token_id':151643,"
     "'eos_token_id':151645,'head_dim':128,'hidden_act':'silu','hidden_size':1024,'initializer_range':0.02,"
     "'intermediate_size':3072,'max_position_embeddings':40960,'max_window_layers':28,'model_type':'qwen3',"
     "'num_attention_heads':16,'num_hidden_layers':28,'num_key_value_heads':8,'rms_norm_eps':1e-06,"
     "'rope_scaling':null,'rope_theta':1000000,'sliding_window':null,'tie_word_embeddings':true,"
     "'use_sliding_window':false,'vocab_size':151936," FROM("4.51.0") "}",
     16, 8},
    {"SmolLM3-3B",
     "{'architectures':['SmolLM3ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,'bos_token_id':null,"
     "'eos_token_id':128012,'hidden_act':'silu','hidden_size':2048,'initializer_range':0.02,"
     "'intermediate_size':11008,'layer_types':[" FULL_36 "],'max_position_embeddings':65536,'max_window_layers':28,"
     "'mlp_bias':false,'model_type':'smollm3','no_rope_layer_interval':4,'no_rope_layers':[" NINE_BY_FOUR "],"
     "'num_attention_heads':16,'num_hidden_layers':36,'num_key_value_heads':4,'pad_token_id':128004,"
     "'pretraining_tp':2,'rms_norm_eps':1e-06,'rope_scaling':null,'rope_theta':5000000.0,'sliding_window':null,"
     "'use_sliding_window':false,'vocab_size':128256," FROM("4.54.0.dev0") "}",
     16, 4},
    {"gemma-2b",
     "{'architectures':['GemmaForCausalLM'],'attention_bias':false,'attention_dropout':0.0,'bos_token_id':2,"
     "'eos_token_id':1,'head_dim':256,'hidden_act':'gelu','hidden_size':2048,'initializer_range':0.02,"
     "'intermediate_size':16384,'max_position_embeddings':8192,'model_type':'gemma','num_attention_heads':8,"
     "'num_hidden_layers':18,'num_key_value_heads':1,'pad_token_id':0,'rms_norm_eps':1e-06,'rope_scaling':null,"
     "'rope_theta':10000.0,'vocab_size':256000," FROM("4.38.0.dev0") "}",
     8, 1},
    {"gemma-2-9b",
     "{'architectures':['Gemma2ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'attn_logit_softcapping':50.0,'bos_token_id':2,'cache_implementation':'hybrid','eos_token_id':1,"
     "'final_logit_softcapping':30.0,'head_dim':256,'hidden_act':'gelu_pytorch_tanh',"
     "'hidden_activation':'gelu_pytorch_tanh','hidden_size':3584,'initializer_range':0.02,'intermediate_size':14336,"
     "'max_position_embeddings':8192,'model_type':'gemma2','num_attention_heads':16,'num_hidden_layers':42,"
     "'num_key_value_heads':8,'pad_token_id':0,'query_pre_attn_scalar':256,'rms_norm_eps':1e-06,'rope_theta':10000.0,"
     "'sliding_window':4096,'sliding_window_size':4096,'vocab_size':256000," FROM("4.42.0.dev0") "}",
     16, 8},
    {"gemma-3-1b-pt",
     "{'architectures':['Gemma3ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'attn_logit_softcapping':null,'bos_token_id':2,'cache_implementation':'hybrid','eos_token_id':1,"
     "'final_logit_softcapping':null,'head_dim':256,'hidden_activation':'gelu_pytorch_tanh','hidden_size':1152,"
     "'initializer_range':0.02,'intermediate_size':6912,'max_position_embeddings':32768,'model_type':'gemma3_text',"
     "'num_attention_heads':4,'num_hidden_layers':26,'num_key_value_heads':1,'pad_token_id':0,"
     "'query_pre_attn_scalar':256,'rms_norm_eps':1e-06,'rope_local_base_freq':10000,'rope_scaling':null,"
     "'rope_theta':1000000,'sliding_window':512,'sliding_window_pattern':6,'vocab_size':262144," FROM(
         "4.50.0.dev0") "}",
     4, 1},
    {"OLMo-2-0425-1B",
     "{'architectures':['Olmo2ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,'eos_token_id':100257,"
     "'hidden_act':'silu','hidden_size':2048,'initializer_range':0.02,'intermediate_size':8192,"
     "'max_position_embeddings':4096,'model_type':'olmo2','num_attention_heads':16,'num_hidden_layers':16,"
     "'num_key_value_heads':16,'pad_token_id':100277,'rms_norm_eps':1e-06,'rope_scaling':null,'rope_theta':500000,"
     "'tie_word_embeddings':false,'vocab_size':100352," FROM("4.47.0.dev0") "}",
     16, 16},
    {"Phi-3-mini-4k-instruct",
     "{'_name_or_path':'Phi-3-mini-4k-instruct','architectures':['Phi3ForCausalLM'],'attention_bias':false,"
     "'attention_dropout':0.0,'auto_map':{'AutoConfig':'configuration_phi3.Phi3Config'},'bos_token_id':1,"
     "'embd_pdrop':0.0,'eos_token_id':32000,'hidden_act':'silu','hidden_size':3072,'initializer_range':0.02,"
     "'intermediate_size':8192,'max_position_embeddings':4096,'model_type':'phi3','num_attention_heads':32,"
     "'num_hidden_layers':32,'num_key_value_heads':32,'original_max_position_embeddings':4096,'pad_token_id':32000,"
     "'resid_pdrop':0.0,'rms_norm_eps':1e-05,'rope_scaling':null,'rope_theta':10000.0,'sliding_window':2047,"
     "'tie_word_embeddings':false,'vocab_size':32064," FROM("4.40.2") "}",
     32, 32},
    {"Phi-4-mini-instruct", /* with a rotation of four channels instead of 96, and as many factors */
     "{'architectures':['Phi3ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'auto_map':{'AutoTokenizer':'Xenova/gpt-4o'},'bos_token_id':199999,'embd_pdrop':0.0,'eos_token_id':199999,"
     "'full_attn_mod':1,'hidden_act':'silu','hidden_size':3072,'initializer_range':0.02,'intermediate_size':8192,"
     "'interpolate_factor':1,'lm_head_bias':false,'max_position_embeddings':131072,'mlp_bias':false,"
     "'model_type':'phi3','num_attention_heads':24,'num_hidden_layers':32,'num_key_value_heads':8,"
     "'original_max_position_embeddings':4096,'pad_token_id':199999,'partial_rotary_factor':0.03125,"
     "'resid_pdrop':0.0,'rms_norm_eps':1e-05,'rope_scaling':{'long_factor':[1,1.118320672],"
     "'short_factor':[1.0,1.0],'type':'longrope'},'rope_theta':10000.0,'sliding_window':262144,"
     "'tie_word_embeddings':true,'vocab_size':200064," FROM("4.45.0") "}",
     24, 8},
    {"pythia-70m",
     "{'architectures':['GPTNeoXForCausalLM'],'bos_token_id':0,'eos_token_id':0,'hidden_act':'gelu','hidden_size':512,"
     "'initializer_range':0.02,'intermediate_size':2048,'layer_norm_eps':1e-05,'max_position_embeddings':2048,"
     "'model_type':'gpt_neox','num_attention_heads':8,'num_hidden_layers':6,'rotary_emb_base':10000,"
     "'rotary_pct':0.25,'tie_word_embeddings':false,'use_parallel_residual':true,'vocab_size':50304," FROM(
         "4.24.0") "}",
     8, 8},
    {"gpt-neox-20b",
     "{'architectures':['GPTNeoXForCausalLM'],'attention_probs_dropout_prob':0,'bos_token_id':0,'eos_token_id':0,"
     "'hidden_act':'gelu_fast','hidden_dropout_prob':0,'hidden_size':6144,'initializer_range':0.02,"
     "'intermediate_size':24576,'layer_norm_eps':1e-05,'max_position_embeddings':2048,'model_type':'gpt_neox',"
     "'num_attention_heads':64,'num_hidden_layers':44,'rotary_emb_base':10000,'rotary_pct':0.25,"
     "'tie_word_embeddings':false,'vocab_size':50432," FROM("4.19.0.dev0") "}",
     64, 64},
    {"phi-2",
     "{'architectures':['PhiForCausalLM'],'attention_dropout':0.0,'bos_token_id':50256,'embd_pdrop':0.0,"
     "'eos_token_id':50256,'hidden_act':'gelu_new','hidden_size':2560,'initializer_range':0.02,"
     "'intermediate_size':10240,'layer_norm_eps':1e-05,'max_position_embeddings':2048,'model_type':'phi',"
     "'num_attention_heads':32,'num_hidden_layers':32,'num_key_value_heads':32,'partial_rotary_factor':0.4,"
     "'qk_layernorm':false,'resid_pdrop':0.1,'rope_scaling':null,'rope_theta':10000.0,'tie_word_embeddings':false,"
     "'vocab_size':51200," FROM("4.37.0") "}",
     32, 32},
    {"starcoder2-3b",
     "{'activation_function':'gelu','architectures':['Starcoder2ForCausalLM'],'attention_dropout':0.1,"
     "'attention_softmax_in_fp32':true,'bos_token_id':0,'embedding_dropout':0.1,'eos_token_id':0,"
     "'hidden_act':'gelu_pytorch_tanh','hidden_size':3072,'initializer_range':0.018042,'intermediate_size':12288,"
     "'layer_norm_epsilon':1e-05,'max_position_embeddings':16384,'mlp_type':'default','model_type':'starcoder2',"
     "'norm_epsilon':1e-05,'norm_type':'layer_norm','num_attention_heads':24,'num_hidden_layers':30,"
     "'num_key_value_heads':2,'residual_dropout':0.1,'rope_theta':999999.4420358813,"
     "'scale_attention_softmax_in_fp32':true,'scale_attn_weights':true,'sliding_window':4096,'use_bias':true,"
     "'vocab_size':49152," FROM("4.37.0.dev0") "}",
     24, 2},
    {"bloom-560m",
     "{'apply_residual_connection_post_layernorm':false,'attention_dropout':0.0,'attention_softmax_in_fp32':true,"
     "'architectures':['BloomForCausalLM'],'bias_dropout_fusion':true,'bos_token_id':1,'eos_token_id':2,"
     "'pad_token_id':3,'unk_token_id':0,'hidden_dropout':0.0,'initializer_range':0.02,'layer_norm_epsilon':1e-05,"
     "'masked_softmax_fusion':true,'model_type':'bloom','n_embed':1024,'n_inner':null,'n_layer':24,"
     "'num_attention_heads':16,'offset_alibi':100,'pretraining_tp':1,'seq_length':2048,'skip_bias_add':true,"
     "'skip_bias_add_qkv':false,'slow_but_exact':false,'transformers_version':'4.20.0','use_cache':true,"
     "'vocab_size':250880}",
     16, 16},
    {"opt-125m",
     "{'_name_or_path':'opt-125m','_remove_final_layer_norm':false,'activation_dropout':0.0,"
     "'activation_function':'relu','architectures':['OPTForCausalLM'],'attention_dropout':0.0,'bos_token_id':2,"
     "'do_layer_norm_before':true,'dropout':0.1,'eos_token_id':2,'ffn_dim':3072,'hidden_size':768,'init_std':0.02,"
     "'layerdrop':0.0,'max_position_embeddings':2048,'model_type':'opt','num_attention_heads':12,"
     "'num_hidden_layers':12,'pad_token_id':1,'prefix':'</s>','vocab_size':50272,'word_embed_proj_dim':768," FROM(
         "4.21.0.dev0") "}",
     12, 12},
    {"t5-small",
     "{'architectures':['T5ForConditionalGeneration'],'d_ff':2048,'d_kv':64,'d_model':512,'decoder_start_token_id':0,"
     "'dropout_rate':0.1,'eos_token_id':1,'initializer_factor':1.0,'is_encoder_decoder':true,"
     "'layer_norm_epsilon':1e-06,'model_type':'t5','n_positions':512,'num_heads':8,'num_layers':6,'output_past':true,"
     "'pad_token_id':0,'relative_attention_num_buckets':32,"
     "'task_specific_params':{'summarization':{'early_stopping':true,'num_beams':4}},'vocab_size':32128}",
     8, 8},
    {"flan-t5-small",
     "{'architectures':['T5ForConditionalGeneration'],'d_ff':1024,'d_kv':64,'d_model':512,'decoder_start_token_id':0,"
     "'dropout_rate':0.1,'eos_token_id':1,'feed_forward_proj':'gated-gelu','initializer_factor':1.0,"
     "'is_encoder_decoder':true,'layer_norm_epsilon':1e-06,'model_type':'t5','n_positions':512,'num_decoder_layers':8,"
     "'num_heads':6,'num_layers':8,'output_past':true,'pad_token_id':0,'relative_attention_max_distance':128,"
     "'relative_attention_num_buckets':32,'tie_word_embeddings':false,'transformers_version':'4.23.1',"
     "'use_cache':true,'vocab_size':32128}",
     6, 6},
    {"mt5-small",
     "{'architectures':['MT5ForConditionalGeneration'],'d_ff':1024,'d_kv':64,'d_model':512,"
     "'decoder_start_token_id':0,'dropout_rate':0.1,'eos_token_id':1,'feed_forward_proj':'gated-gelu',"
     "'initializer_factor':1.0,'is_encoder_decoder':true,'layer_norm_epsilon':1e-06,'model_type':'mt5',"
     "'num_decoder_layers':8,'num_heads':6,'num_layers':8,'pad_token_id':0,'relative_attention_num_buckets':32,"
     "'tie_word_embeddings':false,'tokenizer_class':'T5Tokenizer','vocab_size':250112}",
     6, 6},
    {"umt5-small",
     "{'architectures':['UMT5ForConditionalGeneration'],'classifier_dropout':0.0,'d_ff':1024,'d_kv':64,'d_model':512,"
     "'decoder_start_token_id':0,'dense_act_fn':'gelu_new','dropout_rate':0.1,'eos_token_id':1,"
     "'feed_forward_proj':'gated-gelu','initializer_factor':1.0,'is_encoder_decoder':true,'is_gated_act':true,"
     "'layer_norm_epsilon':1e-06,'model_type':'umt5','num_decoder_layers':8,'num_heads':6,'num_layers':8,"
     "'output_past':true,'pad_token_id':0,'relative_attention_max_distance':128,'relative_attention_num_buckets':32,"
     "'scalable_attention':true,'tie_word_embeddings':false,'tokenizer_class':'T5Tokenizer','use_cache':true,"
     "'vocab_size':256384}",
     6, 6},
    {"starcoderbase-1b",
     "{'activation_function':'gelu_pytorch_tanh','architectures':['GPTBigCodeForCausalLM'],"
     "'attention_softmax_in_fp32':true,'attn_pdrop':0.1,'bos_token_id':0,'embd_pdrop':0.1,'eos_token_id':0,"
     "'inference_runner':0,'initializer_range':0.02,'layer_norm_epsilon':1e-05,'max_batch_size':null,"
     "'max_sequence_length':null,'model_type':'gpt_bigcode','multi_query':true,'n_embd':2048,'n_head':16,"
     "'n_inner':8192,'n_layer':24,'n_positions':8192,'pad_key_length':true,'pre_allocate_kv_cache':false,"
     "'resid_pdrop':0.1,'scale_attention_softmax_in_fp32':true,'scale_attn_weights':true," SUMMARY ","
     "'validate_runner_input':true,'vocab_size':49152," FROM("4.28.1") "}",
     16, 1},
    {"DeepSeek-V3, of 16 bits",
     "{'architectures':['DeepseekV3ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'auto_map':{'AutoConfig':'configuration_deepseek.DeepseekV3Config'},'bos_token_id':0,'eos_token_id':1,"
     "'ep_size':1,'first_k_dense_replace':3,'hidden_act':'silu','hidden_size':7168,'initializer_range':0.02,"
     "'intermediate_size':18432,'kv_lora_rank':512,'max_position_embeddings':163840,'model_type':'deepseek_v3',"
     "'moe_intermediate_size':2048,'moe_layer_freq':1,'n_group':8,'n_routed_experts':256,'n_shared_experts':1,"
     "'norm_topk_prob':true,'num_attention_heads':128,'num_experts_per_tok':8,'num_hidden_layers':61,"
     "'num_key_value_heads':128,'num_nextn_predict_layers':1,'q_lora_rank':1536,'qk_nope_head_dim':128,"
     "'qk_rope_head_dim':64,'rms_norm_eps':1e-06,'rope_scaling':{'beta_fast':32,'beta_slow':1,'factor':40,'mscale':1.0,"
     "'mscale_all_dim':1.0,'original_max_position_embeddings':4096,'type':'yarn'},'rope_theta':10000,"
     "'routed_scaling_factor':2.5,'scoring_func':'sigmoid','tie_word_embeddings':false,'topk_group':4,"
     "'topk_method':'noaux_tc','v_head_dim':128,'vocab_size':129280," FROM("4.33.1") "}",
     128, 128},
};
#endif
