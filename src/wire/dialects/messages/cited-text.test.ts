import { describe, expect, it } from 'vitest'
import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { completionToAnswer } from '../chat/chunk-decoder.ts'
import { completionOf } from '../event-normaliser.ts'
import { answerToMessage } from './answer-to-message.ts'
import { messageToAnswer } from './message-to-answer.ts'
import { MessagesDecoder } from './messages-decoder.ts'

const envelope = { id: 'chatcmpl-01', created: 1_795_000_000, model: 'demo' }
const citation = (cited_text: string) => ({ type: 'char_location', cited_text, document_index: 0 })
const contentOf = (events: readonly AnswerEvent[]) => answerToMessage(events, envelope, 'shown').content
const message = (...content: object[]) => ({ type: 'message', role: 'assistant', content, stop_reason: 'end_turn' })

/** The events of a stream with these blocks: the citations of each come before its text. */
function streamed(...blocks: readonly { text: string; citations: readonly object[] }[]): AnswerEvent[] {
  const decoder = new MessagesDecoder(undefined, true)
  const events = blocks.flatMap(({ text, citations }, index) => [
    { type: 'content_block_start', index, content_block: { type: 'text', text: '', citations: [] } },
    ...citations.map(each => ({
      ...{ type: 'content_block_delta', index, delta: { type: 'citations_delta', citation: each } },
    })),
    { type: 'content_block_delta', index, delta: { type: 'text_delta', text } },
    { type: 'content_block_stop', index },
  ])
  const ending = { type: 'message_delta', delta: { stop_reason: 'end_turn' } }
  return [...[...events, ending, { type: 'message_stop' }].flatMap(each => decoder.read(each)), ...decoder.end()]
}

describe('text with citations', () => {
  const blocks = [
    { text: 'Plain. ', citations: [] },
    { text: 'Blue. ', citations: [citation('a'), citation('b')] },
    { text: 'Wide.', citations: [citation('c')] },
  ]
  const expected = blocks.map(({ text, citations }) => ({
    type: 'text',
    text,
    ...(citations.length > 0 && { citations }),
  }))

  it('keeps its blocks if the citations come before the text', () => {
    expect(contentOf(streamed(...blocks))).toEqual(expected)
  })

  it('keeps its blocks whole, with citations in them', () => {
    const whole = message(...blocks.map(block => ({ type: 'text', ...block })))
    expect(contentOf(messageToAnswer(whole, true))).toEqual(expected)
  })

  it('is one text between the stages, in which no server can forge citations', () => {
    const bounds = { wholeBytes: 1e6, eventBytes: 1e6, delimiters: 1e6, streamDelimiters: 1e6, otherBytes: 1e6 }
    const asked = { choices: 1, hasStop: false, maxTokens: 9, bounds, hidesReasoning: false }
    const completion = completionOf(streamed(...blocks), envelope, asked)
    expect(completion.choices[0]!.message.content).toBe('Plain. Blue. Wide.')
    expect(contentOf(completionToAnswer(completion))).toEqual(expected)
    const sent = JSON.parse(JSON.stringify(completion)) as typeof completion
    expect(contentOf(completionToAnswer(sent))).toEqual([{ type: 'text', text: 'Plain. Blue. Wide.' }])
  })

  it('ignores citations that are no objects', () => {
    expect(contentOf(streamed({ text: 'Blue.', citations: ['x', null] as never }))).toEqual([
      { type: 'text', text: 'Blue.' },
    ])
  })

  it('does not pile up while a call is unfinished', () => {
    const decoder = new MessagesDecoder(undefined, true)
    decoder.read({
      type: 'content_block_start',
      index: 0,
      content_block: { type: 'tool_use', id: 'a', name: 'f', input: {} },
    })
    decoder.read({ type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"a":' } })
    const long = {
      type: 'content_block_delta',
      index: 1,
      delta: { type: 'citations_delta', citation: citation('x'.repeat(600_000)) },
    }
    decoder.read(long)
    expect(() => decoder.read(long)).toThrow(UpstreamFailure)
  })
})
