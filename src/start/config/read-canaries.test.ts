import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { loadConfig } from './config.ts'

const directory = mkdtempSync(join(tmpdir(), 'switchyard-canaries-'))
afterAll(() => rmSync(directory, { recursive: true }))

function load(text: string, name = 'canaries.yaml') {
  if (name === 'canaries.yaml') writeFileSync(join(directory, name), text)
  const file = join(directory, 'switchyard.yaml')
  writeFileSync(file, `trust: { canaries_file: ${name} }`)
  return loadConfig({ env: {}, cwd: directory, file }).trust.canaries
}

test('the prompts of the operator are read relative to the working directory', () => {
  const written = `
canaries:
  - prompt: Name the author of the report on the Elbe bridge.
    answer: Marta Vogel
  - prompt: Name a prime between 24 and 36.
    system: Answer with a number.
    any_of: ["29", "31"]
    max_tokens: 20
    models: [qwen3-8b]
`
  expect(load(written)).toEqual([
    { prompt: 'Name the author of the report on the Elbe bridge.', answers: ['Marta Vogel'], maxTokens: 200 },
    {
      ...{ prompt: 'Name a prime between 24 and 36.', system: 'Answer with a number.' },
      ...{ answers: ['29', '31'], maxTokens: 20, models: ['qwen3-8b'] },
    },
  ])
})

test.each([
  ['no prompt', '- answer: x', /yaml:2: canaries\[0\]\.prompt is missing/],
  ['no answer', '- prompt: secret words', /yaml:2: canaries\[0\] needs answer or any_of/],
  ['two checks', '- { prompt: p, answer: x, any_of: [y] }', /canaries\[0\] needs answer or any_of/],
  ['an unknown key', '- { prompt: p, answer: x, anwser: y }', /canaries\[0\].*anwser/],
  ['no canary', '[]', /canaries must have at least one canary/],
  ['no YAML', '- [', /is not valid YAML/],
])('a file with %s stops the start', (_name, list, message) => {
  const read = () => load(list.startsWith('[') ? `canaries: ${list}` : `canaries:\n  ${list}`)
  expect(read).toThrow(message)
  expect(read).not.toThrow(/secret words/)
})

test('a file that is missing stops the start', () => {
  expect(() => load('', 'none.yaml')).toThrow(/none\.yaml: cannot be read/)
})

test('the example of docs/trust.md can be used', () => {
  const page = readFileSync(new URL('../../../docs/trust.md', import.meta.url), 'utf8')
  const example = /```yaml\n(canaries:.*?)```/s.exec(page)![1]!
  expect(load(example).map(({ answers }) => answers)).toEqual([['Elbe'], ['29', '31'], ['1648']])
})
