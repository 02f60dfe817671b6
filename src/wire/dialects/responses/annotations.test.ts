import { describe, expect, it } from 'vitest'
import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import type { ChunkDelta } from '../../../base/domain/completion.ts'
import { chatAnnotation, readAnnotations } from '../chat/annotations.ts'
import { ChunkDecoder } from '../chat/chunk-decoder.ts'
import { OutputBuilder } from './output-builder.ts'
import { ResponsesDecoder } from './upstream-stream.ts'

const at = (start_index: number, end_index: number) => ({ type: 'url_citation', start_index, end_index, url: 'u' })
const cite = (start: number, end: number): AnswerEvent => ({ kind: 'annotation', annotation: at(start, end) })
const say = (text: string): AnswerEvent => ({ kind: 'text', text })
const call: AnswerEvent[] = [
  { kind: 'tool_start', id: 'c', name: 'f', toolKind: 'function' },
  { kind: 'tool_arguments', text: '{}' },
  { kind: 'tool_end' },
]

/** The annotations of each text that the events make. */
function builtOf(events: readonly AnswerEvent[]): unknown[] {
  const builder = new OutputBuilder('s', null, null)
  for (const event of events) builder.push(event)
  builder.close()
  return builder.items.flatMap(
    ({ content }) => (content as { annotations: unknown[] }[] | undefined)?.map(({ annotations }) => annotations) ?? [],
  )
}

describe('the output of a response', () => {
  it('counts positions from the start of each text', () => {
    expect(builtOf([say('a😀b'), cite(1, 2), ...call, say('cd'), cite(3, 5)])).toEqual([[at(1, 2)], [at(0, 2)]])
  })

  it('keeps annotations that come before their text', () => {
    expect(builtOf([cite(0, 1), say('ab')])).toEqual([[at(0, 1)]])
  })

  it('drops those of a text that has ended', () => {
    expect(builtOf([say('ab'), ...call, cite(0, 1), say('cd'), cite(0, 1)])).toEqual([[], []])
  })
})

describe('a stream of responses', () => {
  const event = (body: object) => ({ event: '', data: JSON.stringify(body) })
  const read = (bodies: readonly object[]) => {
    const decoder = new ResponsesDecoder()
    return bodies.flatMap(body => decoder.push(event(body))).filter(({ kind }) => kind === 'annotation')
  }
  const item = (text: string, ...annotations: object[]) => ({
    type: 'message',
    content: [{ type: 'output_text', text, annotations }],
  })
  const delta = (output_index: number, text: string) => ({
    ...{ type: 'response.output_text.delta', output_index, delta: text },
  })
  const added = (output_index: number, annotation: object) => ({
    ...{ type: 'response.output_text.annotation.added', output_index, annotation },
  })
  const done = (output_index: number, whole: object) => ({
    type: 'response.output_item.done',
    output_index,
    item: whole,
  })

  it('may name annotations only with the whole item', () => {
    expect(read([delta(0, 'a😀'), done(0, item('a😀', at(0, 1))), done(1, item('b', at(0, 1)))])).toEqual([
      cite(0, 1),
      cite(2, 3),
    ])
  })

  it('names none twice', () => {
    const bodies = [
      delta(0, 'ab'),
      added(0, at(0, 1)),
      done(0, item('ab', at(0, 1))),
      delta(1, 'c'),
      added(1, at(0, 1)),
    ]
    expect(read(bodies)).toEqual([cite(0, 1), cite(2, 3)])
  })

  it('ignores annotations that are no objects, or of no item', () => {
    expect(read([added(5, at(0, 1)), delta(0, 'a'), { ...added(0, {}), annotation: 'x' }])).toEqual([])
  })
})

describe('annotations of chat', () => {
  it('have their fields in one that is named after the type', () => {
    const own = { type: 'url_citation', url_citation: { start_index: 0, end_index: 1, url: 'u' } }
    expect(chatAnnotation(at(0, 1))).toEqual(own)
    expect(readAnnotations([own])).toEqual([at(0, 1)])
  })

  it('are read as they are if they have no such field, and ignored without a type', () => {
    expect(readAnnotations([at(0, 1), null, 'x', {}, { type: 1 }])).toEqual([at(0, 1)])
    expect(readAnnotations('x')).toEqual([])
  })

  it('that come after a call has started are dropped', () => {
    const head = { id: 'i', object: 'chat.completion.chunk', created: 1, model: 'm' } as const
    const chunk = (delta: ChunkDelta) => ({ ...head, choices: [{ index: 0, delta, finish_reason: null }] })
    const decoder = new ChunkDecoder()
    decoder.push(chunk({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{' } }] }))
    expect(decoder.push(chunk({ annotations: [chatAnnotation(at(0, 1))] }))).toEqual([])
  })
})
