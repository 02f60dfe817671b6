import { expect, test } from 'vitest'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import { promptMessages } from './prompt-messages.ts'

const promptOf = (texts: readonly string[], lengthMax: number) => {
  const forward = { messages: texts.map(content => ({ role: 'user', content })) }
  const { messages, isCut } = promptMessages({ forward } as unknown as ChatJob, lengthMax)
  return { kept: messages.map(({ text, length }) => text.slice(0, length)), isCut }
}

test.each([
  [['abc', 'de'], 9, ['abc', 'de'], false],
  // One that fits exactly is whole.
  [['abc', 'de'], 5, ['abc', 'de'], false],
  [['', 'abc', 'de'], 5, ['', 'abc', 'de'], false],
  [['abc', 'de'], 4, ['ab', 'de'], true],
  [['abc', 'de'], 2, ['de'], true],
  [['abc', 'de'], 1, ['d'], true],
] as const)('%j within %i', (texts, lengthMax, kept, isCut) => {
  expect(promptOf(texts, lengthMax)).toEqual({ kept, isCut })
})
