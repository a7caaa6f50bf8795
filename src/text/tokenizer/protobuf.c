#include "protobuf.h"

static bool read_varint(mega_message *m, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && m->at < m->size; shift += 7) {
        const uint8_t b = m->bytes[m->at++];
        *out |= (uint64_t)(b & 0x7F) << shift;
        if ((b & 0x80) == 0) return true;
    }
    m->damaged = true;
    return false;
}

static bool read_fixed(mega_message *m, size_t n, uint64_t *out)
{
    *out = 0;
    if (m->size - m->at < n) {
        m->damaged = true;
        return false;
    }
    for (size_t i = 0; i < n; i++) *out |= (uint64_t)m->bytes[m->at + i] << (8 * i);
    m->at += n;
    return true;
}

bool mega_message_next(mega_message *m, mega_field *out)
{
    uint64_t tag, size;
    if (m->damaged || m->at >= m->size || !read_varint(m, &tag)) return false;
    *out = (mega_field){.number = tag >> 3, .wire = (int)(tag & 7)};
    switch (out->wire) {
    case MEGA_WIRE_VARINT: return read_varint(m, &out->value);
    case MEGA_WIRE_64: return read_fixed(m, 8, &out->value);
    case MEGA_WIRE_32: return read_fixed(m, 4, &out->value);
    case MEGA_WIRE_BYTES:
        if (!read_varint(m, &size)) return false;
        if (size > m->size - m->at) break;
        out->bytes = m->bytes + m->at;
        out->size = (size_t)size;
        m->at += (size_t)size;
        return true;
    default: break;
    }
    m->damaged = true;
    return false;
}
