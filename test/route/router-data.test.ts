import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readPythonList } from '../../bench/auto/python-list.ts'
import { readRows } from '../../bench/auto/read-rows.ts'

// The forms of the two public collections that `npm run bench:auto -- --data` reads.

const directory = mkdtempSync(join(tmpdir(), 'switchyard-router-data-'))
afterAll(() => rmSync(directory, { recursive: true }))

function rowsOf(text: string) {
  const path = join(directory, 'data')
  writeFileSync(path, text)
  return readRows(path)
}

test('RouterBench, as pandas writes it: prompts are lists of Python, costs and answers have columns of their own', () => {
  const rows = rowsOf(
    [
      ',sample_id,prompt,eval_name,gpt-4,small/model,gpt-4|model_response,small/model|model_response,gpt-4|total_cost,small/model|total_cost,oracle_model_to_route_to',
      `0,mmlu-1,"['One, two?\\nIt\\'s ""three"".']",mmlu,1.0,0.25,"['Yes']","['7']",0.00118,2e-05,gpt-4`,
      `1,bench-2,"['A system.', ""B's turn""]",mtbench,0.0,,"['No']",,0.001,,no_model_correct`,
    ].join('\n'),
  )
  expect(rows).toEqual([
    {
      prompt: 'One, two?\nIt\'s "three".',
      quality: { 'gpt-4': 1, 'small/model': 0.25 },
      costUsd: { 'gpt-4': 0.00118, 'small/model': 0.00002 },
      answerLength: { 'gpt-4': 3, 'small/model': 1 },
    },
    {
      prompt: "A system.\nB's turn",
      quality: { 'gpt-4': 0 },
      costUsd: { 'gpt-4': 0.001 },
      answerLength: { 'gpt-4': 2 },
    },
  ])
})

test('RouteLLM: a column of answers is no model, even if each answer is a number', () => {
  const rows = rowsOf(
    'prompt,weak/model,strong-model,weak/model_response,strong-model_response\n"2 + 2?",True,False,4,22\n',
  )
  expect(rows).toEqual([
    {
      prompt: '2 + 2?',
      quality: { 'weak/model': 1, 'strong-model': 0 },
      costUsd: {},
      answerLength: { 'weak/model': 1, 'strong-model': 2 },
    },
  ])
})

test('JSON lines have the same columns, and a quality beyond 1 is refused', () => {
  expect(rowsOf('{"prompt":"Hi","a":true,"b":0.5}\n{"prompt":"Ho","a":false,"b":1}\n')).toHaveLength(2)
  expect(() => rowsOf('{"prompt":"Hi","a":8}\n')).toThrow('The quality of a is 8.')
  expect(() => rowsOf('{"question_id":1,"score":8}\n')).toThrow('no row')
})

test.each([
  [`['a', "b's"]`, ['a', "b's"]],
  [`['\\u4f60\\x21', '\\\\ \\'']`, ['你!', "\\ '"]],
  ['[1, 2]', null],
  [`['a' 'b']`, null],
  [`['a'] and more`, null],
  [`['open`, null],
])('a list of Python: %s', (text, items) => {
  expect(readPythonList(text)).toEqual(items)
})
