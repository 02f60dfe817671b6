import { expect, test } from 'vitest'
import { attemptFailure, QUOTE_CHARACTERS } from './attempt-failure.ts'

const ticket = { requestId: 'r', caller: { customerId: 'c' } }
const said = (upstreamMessage: string | undefined, body: string) =>
  attemptFailure({ message: '500', status: 500, upstreamMessage }, ticket, { body, names: ['qwen3-8b'] }).serverText()

const body = JSON.stringify({
  model: 'qwen3-8b',
  messages: [{ role: 'user', content: 'The password of my bank is 1234' }],
})

test.each([
  ['CUDA out of memory. Tried to allocate 2 GiB', body, 'CUDA out of memory. Tried to allocate 2 GiB'],
  ['The model qwen3-8b does not exist', body, 'The model qwen3-8b does not exist'],
  ['Cannot parse: "The password of my bank is 1234"', body, null],
  ['x'.repeat(1_000), body, 'x'.repeat(240)],
  [`${'x'.repeat(239)}😀 tail`, body, `${'x'.repeat(239)}\ufffd`],
  [undefined, body, null],
  ['out of memory', `${body}${' '.repeat(300_000)}`, null],
])('the text %j of a server is shown unless it quotes the request', (text, sent, shown) => {
  expect(said(text, sent)).toBe(shown)
})

test('a quote at any place is noticed', () => {
  const quote = 'abcdefghijklmnopqrstuvwxyz'.slice(0, QUOTE_CHARACTERS)
  for (let before = 0; before < QUOTE_CHARACTERS; before++) {
    expect(said(`${'#'.repeat(before)}${quote}#`, `{"content":"${quote}"}`)).toBe(null)
  }
})
