import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { curlLine } from '../../start/welcome.ts'
import { quoteForShell } from './quote-for-shell.ts'

test.each([
  'acme',
  'ada@example.com',
  'My Hoster',
  "o'hara@example.com",
  'a$HOME`id`"&|;<>()#*?!~{}\\@x.org',
  '日本 x',
  '',
])('a shell reads %j as one word', text => {
  expect(execFileSync('sh', ['-c', `printf %s ${quoteForShell(text)}`], { encoding: 'utf8' })).toBe(text)
})

test('a text that needs no quotes has none', () => {
  expect(['acme', 'ada+test@example.com', 'eu-1.acme_2'].map(quoteForShell)).toEqual([
    'acme',
    'ada+test@example.com',
    'eu-1.acme_2',
  ])
})

test('a curl line with a quote in the model name is one command', () => {
  const line = curlLine('http://127.0.0.1:8080', 'sk-sy-x', "o'model")
  const args = execFileSync('sh', ['-c', line.replace(/^curl /, "printf '%s\\n' ")], { encoding: 'utf8' })
  expect(JSON.parse(args.trimEnd().split('\n').at(-1)!)).toMatchObject({ model: "o'model" })
})
