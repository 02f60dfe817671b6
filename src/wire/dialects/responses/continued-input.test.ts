import { expect, it } from 'vitest'
import { readClientEvent } from './client-event.ts'
import { continuedInput, joined } from './continued-input.ts'

const message = (content: string) => ({ type: 'message', role: 'user', content })
const call = { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{}' }
const result = { type: 'function_call_output', call_id: 'call_1', output: 'Fog.' }
const none = Buffer.alloc(0)

it('joins a text, a list and nothing to the conversation so far', () => {
  const kept = joined(none, [message('One')])
  expect(continuedInput(kept, 'Two').input).toEqual([message('One'), message('Two')])
  expect(continuedInput(kept, [message('Two')]).input).toEqual([message('One'), message('Two')])
  for (const nothing of [undefined, null, []]) expect(continuedInput(kept, nothing).input).toEqual([message('One')])
  expect(continuedInput(null, 'One').items.equals(kept)).toBe(true)
  const { items } = continuedInput(kept, 'Two')
  expect(JSON.parse(`[${items}]`)).toEqual([message('One'), message('Two')])
})

it('keeps what JSON says, also a member "__proto__" and half a character', () => {
  const items = [JSON.parse('{"type":"message","__proto__":{"a":1}}'), message('\ud800')]
  const { input } = continuedInput(joined(none, items), 'Two')
  expect(JSON.stringify(input)).toContain('"__proto__":{"a":1}')
  expect((input as { content: string }[])[1]!.content).toBe('\ud800')
})

it('leaves an input of another type to the reader', () => {
  for (const input of [1, true, {}]) expect(continuedInput(joined(none, [message('One')]), input).input).toBe(input)
})

it('refuses the output of a call that nobody made, and takes one of the same request', () => {
  const kept = joined(none, [message('One'), call])
  expect(() => continuedInput(kept, [result])).not.toThrow()
  expect(() => continuedInput(kept, [{ ...result, call_id: 'call_2' }])).toThrow('No tool call found')
  expect(() => continuedInput(joined(none, [message('One')]), [call, result])).not.toThrow()
  expect(() => continuedInput(joined(none, [message('One')]), [result, call])).toThrow('No tool call found')
})

it('reads events: what belongs to the connection, and the body of the request', () => {
  const read = (event: object) => readClientEvent(Buffer.from(JSON.stringify(event)))
  const body = { model: 'm', input: 'Hi' }
  expect(read({ type: 'response.create', ...body, stream: false })).toEqual({
    ...{ streamId: null, previousResponseId: null, generates: true },
    body: { ...body, stream: true },
  })
  const named = { stream_id: 'a.b-c_1', previous_response_id: 'resp_1', generate: false }
  expect(read({ type: 'response.create', ...body, ...named })).toMatchObject({
    ...{ streamId: 'a.b-c_1', previousResponseId: 'resp_1', generates: false },
  })
  expect(read({ type: 'response.processed', response_id: 'resp_1' })).toBe(null)
  for (const [wrong, param] of [
    [{ stream_id: 'a b' }, 'stream_id'],
    [{ stream_id: 'x'.repeat(257) }, 'stream_id'],
    [{ stream_id: 1 }, 'stream_id'],
    [{ previous_response_id: 1 }, 'previous_response_id'],
    [{ generate: 'no' }, 'generate'],
    [{ type: 'response.steer' }, 'type'],
  ] as const) {
    expect(read({ type: 'response.create', ...body, ...wrong })).toMatchObject({ refusal: { param } })
  }
})
