import { expect, it } from 'vitest'
import { encodeChunk, textChunk, textEncoder } from './sse-encode.ts'

const envelopes = [
  { id: 'chatcmpl-1', created: 1_750_000_000, model: 'model' },
  { id: '', created: 0, model: '"content":"" \\' },
]

it.each(envelopes)('a text is encoded as its chunk would be, with and without usage: $model', envelope => {
  for (const text of ['Hi', '', '""', 'line\n"quoted" \\ é 😀 \ud800']) {
    const chunk = textChunk(envelope, text)
    expect(textEncoder(envelope, false)(text)).toBe(encodeChunk(chunk))
    expect(textEncoder(envelope, true)(text)).toBe(encodeChunk({ ...chunk, usage: null }))
  }
})
