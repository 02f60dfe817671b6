import { expect, test } from 'vitest'
import { cleanText, growPrompt, growReply, sharesWords } from './grow-prompt.ts'

test.each([
  ['What is a weir?', 'What is a weir?'],
  ['"What is a weir?"', 'What is a weir?'],
  ['“What is a weir?”', 'What is a weir?'],
  ['Here is the message:\n\n"What is a weir?"', 'What is a weir?'],
  ['<think>A question about "rivers".</think>\n\nWhat is a weir?', 'What is a weir?'],
  ['"Weir" or "dam"', '"Weir" or "dam"'],
  ['Translate:\nBonjour', 'Translate:\nBonjour'],
])('%j is cleaned', (written, text) => {
  expect(cleanText(written)).toBe(text)
})

test('words in a row are compared in any case, without punctuation', () => {
  expect(sharesWords('So: WHERE does it end?', 'but where does, it end', 4)).toBe(true)
  expect(sharesWords('where does it begin', 'where does it end', 4)).toBe(false)
})

const deps = (drawn: number, corpus: readonly string[] = []) => ({
  ...{ random: () => drawn, corpus },
  drawWords: (count: number) => Array.from({ length: count }, () => 'harbour'),
})

test('a request may have instructions of an application before the message', async () => {
  expect(await growPrompt(deps(0.9), async () => 'Where is it?')).toEqual([{ role: 'user', content: 'Where is it?' }])
  expect(await growPrompt(deps(0.1), async () => 'You help sailors.\n===\nWhere is it?')).toEqual([
    { role: 'system', content: 'You help sailors.' },
    { role: 'user', content: 'Where is it?' },
  ])
})

test.each([
  ['nothing', async () => null],
  ['no text', async () => '""'],
  ['the instruction', async (instruction: string) => `Sure. ${instruction}`],
  ['a passage', async () => 'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda'],
  ['a text without an end', async () => 'word '.repeat(5_000)],
])('a reference that writes %s has written no prompt', async (_, ask) => {
  const corpus = ['Alpha beta gamma delta epsilon zeta eta theta iota kappa.']
  expect(await growPrompt(deps(0.9, corpus), ask)).toBeNull()
})

test('the next message of a person is written from the messages before it', async () => {
  const history = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Where is it?' },
    { role: 'assistant', content: 'In the harbour.' },
  ]
  let seen = ''
  const reply = await growReply(history, async instruction => {
    seen = instruction
    return 'Which one?'
  })
  expect(reply).toBe('Which one?')
  expect(seen).toContain('In the harbour.')
  expect(seen).not.toContain('Be brief.')
  expect(await growReply(history, async instruction => instruction)).toBeNull()
})
