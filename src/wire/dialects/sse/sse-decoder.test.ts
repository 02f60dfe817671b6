import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ByteBudget, uncounted } from '../../../base/runtime/counted-memory.ts'
import { SseDecoder, type SseEvent } from './sse-decoder.ts'

function decode(...pieces: (string | Buffer)[]): SseEvent[] {
  const decoder = new SseDecoder(2 ** 20, uncounted)
  return [...pieces.flatMap(piece => decoder.push(Buffer.from(piece))), ...decoder.end()]
}

const data = (...texts: string[]) => texts.map(text => ({ event: '', data: text }))

describe('SseDecoder', () => {
  it.each<[name: string, stream: string, events: SseEvent[]]>([
    ['LF', 'data: a\n\ndata: b\n\n', data('a', 'b')],
    ['CRLF', 'data: a\r\n\r\ndata: b\r\n\r\n', data('a', 'b')],
    ['CR', 'data: a\r\rdata: b\r\r', data('a', 'b')],
    ['mixed line ends', 'data: a\r\n\ndata: b\n\rdata: c\r\r', data('a', 'b', 'c')],
    ['no space after the colon', 'data:a\n\n', data('a')],
    ['only one space removed', 'data:  a\n\n', data(' a')],
    ['several data lines', 'data: a\ndata: b\n\n', data('a\nb')],
    ['data without a colon', 'data\n\n', data('')],
    ['comments', ': OPENROUTER PROCESSING\n\n:\ndata: a\n\n: ping\n\n', data('a')],
    ['blank lines', '\n\n\n\ndata: a\n\n\n\n', data('a')],
    ['BOM', '\ufeffdata: a\n\n', data('a')],
    ['unknown fields', 'id: 7\nretry: 10\nfoo: bar\n<html>\ndata: a\n\n', data('a')],
    ['event name', 'event: error\ndata: {}\n\ndata: a\n\n', [{ event: 'error', data: '{}' }, ...data('a')]],
    ['event name without data', 'event: error\n\ndata: a\n\n', data('a')],
    ['old llama.cpp error field', 'error: {"code":500}\n\n', [{ event: 'error', data: '{"code":500}' }]],
    ['no blank line at the end', 'data: a\n\ndata: [DONE]', data('a', '[DONE]')],
    ['NUL', 'data: a\u0000b\n\n', data('a\u0000b')],
    ['nothing', '', []],
  ])('reads %s', (_name, stream, events) => {
    expect(decode(stream)).toEqual(events)
    expect(decode(...Array.from(Buffer.from(stream), byte => Buffer.from([byte])))).toEqual(events)
  })

  it('reads the same events however the bytes are split', () => {
    const stream = Buffer.from(
      '\ufeff: ping\r\ndata: {"text":"zażółć 🙂"}\r\n\r\nevent: x\rdata: 1\rdata: 2\r\rdata: 漢字\n\n',
    )
    const whole = decode(stream)
    fc.assert(
      fc.property(fc.array(fc.nat(stream.length), { maxLength: 12 }), cuts => {
        const at = [0, ...cuts.sort((a, b) => a - b), stream.length]
        expect(decode(...at.slice(1).map((end, i) => stream.subarray(at[i], end)))).toEqual(whole)
      }),
    )
  })

  const oversized = expect.objectContaining({ outcome: 'malformed' })

  it('refuses a line or event above its limit, also in small pieces', () => {
    const piece = Buffer.alloc(64 * 1024, 'x')
    expect(decode('data: ', ...Array(15).fill(piece), '\n\n')[0]!.data).toHaveLength(15 * piece.length)
    expect(() => decode(`data: ${'x'.repeat(2 ** 20)}\n\n`)).toThrow(oversized)
    expect(() => decode('data: ', ...Array(17).fill(piece))).toThrow(oversized)
    expect(() => decode(...Array(17).fill(`data: ${piece}\n`))).toThrow(oversized)
    // The limit is for one event.
    expect(decode(...Array(17).fill(`data: ${piece}\n\n`))).toHaveLength(17)
  })

  it('refuses an event of many lines', () => {
    expect(decode('data:\n'.repeat(4_096), '\n')[0]!.data).toBe('\n'.repeat(4_095))
    expect(() => decode('data:\n'.repeat(4_097))).toThrow(oversized)
    expect(decode(':\n'.repeat(10_000), 'data: a\n\n')).toEqual(data('a'))
  })

  it('pays for what it keeps between two reads, and ends the stream if the memory is used up', () => {
    const budget = new ByteBudget(100_000)
    const decoder = new SseDecoder(2 ** 20, budget)
    decoder.push(Buffer.from(`data: ${'x'.repeat(20_000)}`))
    expect(budget.usedBytes).toBeGreaterThanOrEqual(20_000)
    decoder.push(Buffer.from('\n'))
    expect(budget.usedBytes).toBeGreaterThanOrEqual(40_000)
    expect(decoder.push(Buffer.from('\n'))).toHaveLength(1)
    expect(budget.usedBytes).toBe(0)
    expect(() => decoder.push(Buffer.from(`data: ${'x'.repeat(200_000)}`))).toThrow(
      expect.objectContaining({ reason: 'memory_used_up' }),
    )
  })
})
