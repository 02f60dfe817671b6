import { expect, test } from 'vitest'
import { redactTexts } from './redact-texts.ts'
import { unescaped } from './unescaped.ts'

const whole = (text: string) => ({ text, length: text.length })
const redactText = async (text: string) => {
  const { texts, redactions } = await redactTexts([whole(text)])
  return { text: texts[0]!, redactions }
}

// Joined, so that no scanner takes them for keys that leaked.
const aws = ['AKIA', 'IOSFODNN7ABCDEFG'].join('')
const github = ['ghp', `_${'A1b2'.repeat(9)}`].join('')
const own = ['sk-sy', `-${'A1b2C3d4'.repeat(4)}`].join('')

const privateKey = ['-----BEGIN RSA PRIVATE', ' KEY-----\nProc-Type: 4,ENCRYPTED\n\n', 'Ab1+'.repeat(4_000)].join('')

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

test.each([
  ['a comment for linters', `# secretlint-disable\nkey = ${aws}`, '# secretlint-disable\nkey = [CREDENTIAL]'],
  ['one for a line', `x // secretlint-disable-line\n${github}`, 'x // secretlint-disable-line\n[CREDENTIAL]'],
  ['arguments in JSON', `{"content":"first\\n${github}"}`, '{"content":"first\\n[CREDENTIAL]"}'],
  ['a tab in JSON', `{"content":"a\\t${own}"}`, '{"content":"a\\t[CREDENTIAL]"}'],
  [
    'JSON in JSON',
    JSON.stringify({ a: JSON.stringify({ b: `x\n${aws}` }) }),
    '{"a":"{\\"b\\":\\"x\\\\n[CREDENTIAL]\\"}"}',
  ],
  ['an address with an escaped @', '"ada\\u0040example.com"', '"[EMAIL]"'],
  ['an address in a URL', 'https://example.com/?to=ada%40example.com&x=1', 'https://example.com/?to=[EMAIL]&x=1'],
  ['a long private key that was cut', `it is ${privateKey}`, 'it is [CREDENTIAL]'],
  ['a private key, then text', `${privateKey}-----END RSA PRIVATE KEY-----" Thanks!`, '[CREDENTIAL]" Thanks!'],
])('redacts in spite of %s', async (_, text, expected) => {
  expect((await redactText(text)).text).toBe(expected)
})

test('finds an AWS secret in escaped JSON', async () => {
  const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYzExampleKe'
  const text = JSON.stringify({ env: JSON.stringify({ aws_secret_access_key: secret }) })
  expect((await redactText(text)).text).not.toContain(secret)
})

test('keeps texts apart, and searches what is cut off', async () => {
  const keyAtCut = `mail ${github} now`
  const { texts, redactions } = await redactTexts([
    whole('save'),
    whole(github),
    whole(''),
    whole(github),
    { text: keyAtCut, length: 10 },
    { text: 'write to ada@example.com', length: 16 },
    { text: `none before the cut ${github}`, length: 10 },
  ])
  expect(texts).toEqual([
    'save',
    '[CREDENTIAL]',
    '',
    '[CREDENTIAL]',
    'mail [CREDENTIAL]',
    'write to [EMAIL]',
    'none befor',
  ])
  expect(redactions).toBe(4)
})

test('escapes keep their places', () => {
  const text = 'a\\n\\\\"b%41c\\u0040\\x'
  const plain = unescaped(text)!
  expect(plain.text).toBe('a\n"bAc@\\x')
  expect(Array.from(plain.text, (_, index) => text.slice(plain.indexOf(index), plain.indexOf(index + 1)))).toEqual([
    ...['a', '\\n', '\\\\"', 'b', '%41', 'c', '\\u0040', '\\', 'x'],
  ])
  expect(unescaped('nothing here')).toBeNull()
})

test.each([
  ['backslashes', '\\'.repeat(65_536)],
  ['beginnings of private keys', '-----BEGIN PRIVATE KEY-----'.repeat(2_400)],
  ['escapes', '\\n'.repeat(32_000)],
])('ends soon for %s', async (_, text) => {
  expect((await redactText(text)).text.length).toBeGreaterThan(0)
})
