/* Windows and rotation by layer in config.json: sliding_window, layer_types, no_rope_layers. */
#include "hf_impl.h"

#include <stdio.h>
#include <string.h>

/* With window W, position i sees i - W + 1 to i. */
static void hf_set_window(mega_model_shape *s, int64_t window)
{
    s->net.has_window = window > 0;
    s->net.window_left = window > 0 ? window - 1 : 0;
    s->net.window_right = 0;
}

void hf_take_window(hf_reader *r, mega_model_shape *s, int64_t fallback)
{
    const json_t *v = hf_take(r, "sliding_window");
    int64_t window = fallback;
    if (v != NULL && json_is_null(v)) window = 0;
    else if (v != NULL)
        window = hf_take_int(r, "sliding_window", 0);
    hf_set_window(s, window);
}

void hf_put_window(const mega_model_shape *s, void *user, hf_put *put)
{
    if (s->net.has_window) hf_put_int(user, put, "sliding_window", s->net.window_left + 1);
    else
        put(user, "sliding_window", "null");
}

/* Whether a list with an entry for each layer fits; reports it if not. */
static bool is_list_of_layers(hf_reader *r, const char *key, const json_t *list, const mega_model_shape *s)
{
    char expected[96];
    if (json_is_array(list) && (int64_t)json_array_size(list) == s->num_layers && s->num_layers <= MEGA_SHAPE_LAYERS)
        return true;
    snprintf(expected, sizeof expected, "a list with an entry for each of the %lld layers, at most %d",
             (long long)s->num_layers, MEGA_SHAPE_LAYERS);
    hf_refuse(r, key, list, expected);
    return false;
}

void hf_take_layer_types(hf_reader *r, mega_model_shape *s, bool (*has_window)(const mega_model_shape *, int64_t))
{
    const json_t *list = hf_take(r, "layer_types");
    mega_network_shape *n = &s->net;
    if (list != NULL && json_is_null(list)) list = NULL;
    if (list != NULL && !is_list_of_layers(r, "layer_types", list, s)) return;
    if (list == NULL && n->has_window && s->num_layers > MEGA_SHAPE_LAYERS) {
        char expected[64];
        snprintf(expected, sizeof expected, "at most %d layers in a model with windows", MEGA_SHAPE_LAYERS);
        hf_refuse(r, "num_hidden_layers", json_object_get(r->json, "num_hidden_layers"), expected);
        return;
    }
    n->window_by_layer = true;
    for (int64_t i = 0; i < s->num_layers && i < MEGA_SHAPE_LAYERS; i++) {
        const char *type = list != NULL ? json_string_value(json_array_get(list, (size_t)i)) : NULL;
        if (list != NULL &&
            (type == NULL || (strcmp(type, "full_attention") != 0 && strcmp(type, "sliding_attention") != 0))) {
            hf_refuse(r, "layer_types", json_array_get(list, (size_t)i), "full_attention or sliding_attention");
            return;
        }
        if (list != NULL ? strcmp(type, "sliding_attention") == 0 : has_window(s, i))
            mega_shape_set_bit(n->windowed, i);
    }
}

void hf_put_layer_types(const mega_model_shape *s, void *user, hf_put *put)
{
    mega_buffer b = {0};
    mega_buffer_puts(&b, "[");
    for (int64_t i = 0; i < s->num_layers; i++)
        mega_buffer_printf(&b, "%s\"%s_attention\"", i > 0 ? ", " : "",
                           mega_shape_bit(s->net.windowed, i) ? "sliding" : "full");
    mega_buffer_puts(&b, "]");
    hf_put_text(user, put, "layer_types", &b);
}

/* Every interval-th layer is not rotated, unless a list says for each layer whether it is (1) or not (0). */
void hf_take_no_rope(hf_reader *r, mega_model_shape *s, int64_t interval)
{
    interval = hf_take_int(r, "no_rope_layer_interval", interval);
    const json_t *list = hf_take(r, "no_rope_layers");
    if (list != NULL && json_is_null(list)) list = NULL;
    if (list != NULL && !is_list_of_layers(r, "no_rope_layers", list, s)) return;
    for (int64_t i = 0; i < s->num_layers && i < MEGA_SHAPE_LAYERS; i++) {
        const json_t *v = list != NULL ? json_array_get(list, (size_t)i) : NULL;
        if (v != NULL ? json_integer_value(v) == 0 && !json_is_true(v) : (i + 1) % interval == 0)
            mega_shape_set_bit(s->net.no_rope, i);
    }
}

void hf_put_no_rope(const mega_model_shape *s, void *user, hf_put *put)
{
    mega_buffer b = {0};
    mega_buffer_puts(&b, "[");
    for (int64_t i = 0; i < s->num_layers; i++)
        mega_buffer_printf(&b, "%s%d", i > 0 ? ", " : "", mega_shape_bit(s->net.no_rope, i) ? 0 : 1);
    mega_buffer_puts(&b, "]");
    hf_put_text(user, put, "no_rope_layers", &b);
}

void hf_clear_windows(hf_reader *r, mega_model_shape *s)
{
    const json_t *list = json_object_get(r->json, "layer_types");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *type = json_string_value(json_array_get(list, i));
        if (type == NULL || strcmp(type, "sliding_attention") != 0) continue;
        hf_refuse(
            r, "layer_types", json_array_get(list, i),
            json_object_get(r->json, "use_sliding_window") != NULL
                ? "full_attention in each layer, since sliding_window or use_sliding_window say there is no window"
                : "full_attention in each layer, since sliding_window says that there is no window");
        return;
    }
    memset(s->net.windowed, 0, sizeof s->net.windowed);
    s->net.window_left = s->net.window_right = 0;
}
