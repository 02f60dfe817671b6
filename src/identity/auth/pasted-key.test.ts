import { expect, test } from 'vitest'
import { hintOf, mintApiKey } from './api-key.ts'
import { readPastedKey } from './pasted-key.ts'

const key = mintApiKey()

test.each([
  key,
  ` ${key}\n`,
  `export OPENAI_API_KEY="${key}"`,
  // The lines of "Copy for .env", also where a field has taken the line breaks out.
  `OPENAI_API_KEY=${key}\nOPENAI_BASE_URL=https://gateway.example/v1\n`,
  `OPENAI_API_KEY=${key}OPENAI_BASE_URL=https://gateway.example/v1`,
  `curl https://gateway.example/v1/models -H 'Authorization: Bearer ${key}'`,
  `{"apiKey":"${key}","again":"${key}"}`,
  `${key} is shown as ${hintOf(mintApiKey())}`,
])('finds the whole key in %j', text => {
  expect(readPastedKey(text)).toEqual({ key })
})

test.each([hintOf(key), `laptop ${hintOf(key)} paused`, hintOf(key).replace('…', '...')])(
  'finds the hint in %j',
  text => {
    expect(readPastedKey(text)).toEqual({ key: null, hint: hintOf(key) })
  },
)

test.each([
  ['', 'no whole key'],
  ['laptop', 'no whole key'],
  [key.slice(0, -1), 'no whole key'],
  [`${key.slice(0, 20)}${key[20] === 'a' ? 'b' : 'a'}${key.slice(21)}`, 'no whole key'],
  [`${key}\n${mintApiKey()}`, 'are 2 keys'],
  [`${hintOf(key)} ${hintOf(mintApiKey())}`, 'are 2 keys'],
])('says what is wrong with %j, without a key', (text, message) => {
  expect(() => readPastedKey(text)).toThrow(expect.objectContaining({ code: 'invalid_value' }))
  expect(() => readPastedKey(text)).toThrow(message)
  expect(() => readPastedKey(text)).not.toThrow(key.slice(6, -6))
})
