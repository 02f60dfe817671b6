import { expect, it } from 'vitest'
import { chatStream } from './chat-stream.ts'

const envelopes = [
  { id: 'chatcmpl-1', created: 1_750_000_000, model: 'model' },
  { id: '', created: 0, model: '"content":"" \\' },
]

it.each(envelopes)('encodes a text as it encodes the chunk of that text, with and without usage: $model', envelope => {
  for (const text of ['Hi', '', '""', 'line\n"quoted" \\ é 😀 \ud800']) {
    const plain = chatStream.encoder(envelope, { includeUsage: false })
    const withUsage = chatStream.encoder(envelope, { includeUsage: true })
    const chunk = plain.textChunk(text)
    expect(plain.text(text)).toBe(plain.chunk(chunk))
    expect(withUsage.text(text)).toBe(withUsage.chunk({ ...chunk, usage: null }))
  }
})
