import { expect, test } from 'vitest'
import { joined, sentencesIn, sentencesOf } from './said.ts'

const table = {
  'job.late': 'The job {task} is late by {seconds} s.',
  'job.todo': 'Check the log. Then wait.',
  'server.silent': 'The server does not answer: {error}.',
} as const
const say = sentencesOf(table)
const codesIn = sentencesIn(table)

test('a sentence has its text, and its code with the values', () => {
  expect(joined(say('job.late', { task: '{seconds}', seconds: 5 }), say('job.todo'))).toEqual({
    text: 'The job {seconds} is late by 5 s. Check the log. Then wait.',
    codes: [
      { code: 'job.late', values: { task: '{seconds}', seconds: 5 } },
      { code: 'job.todo', values: {} },
    ],
  })
})

test.each<[string | null, (readonly [string, object])[]]>([
  [null, []],
  ['Check the log. Then wait.', [['job.todo', {}]]],
  ['The server does not answer: It hung. Up.', [['server.silent', { error: 'It hung. Up' }]]],
  [
    'The job a is late by 5 s. The job b is late by 6 s.',
    [
      ['job.late', { task: 'a', seconds: '5' }],
      ['job.late', { task: 'b', seconds: '6' }],
    ],
  ],
  ['The job a is late by 5 s. We moved.', []],
  ['We moved.', []],
])('the sentences of a stored text: %s', (text, found) => {
  expect(codesIn(text)).toEqual(found.map(([code, values]) => ({ code, values })))
})
