import { describe, expect, test } from 'vitest'
import { textPieces } from './demo-language.ts'
import { endReply } from './end-reply.ts'

const text = 'The train waits. The yard is full. Nothing moves.'

function run(limits: { maxTokens?: number; stop?: string[] }) {
  let tokens = 0
  const reply = endReply(
    textPieces(text),
    { maxTokens: limits.maxTokens ?? 1_000, stop: limits.stop ?? [], endReason: 'stop' },
    () => {
      tokens += 1
    },
  )
  const shown: string[] = []
  for (;;) {
    const step = reply.next()
    if (step.done) return { text: shown.join(''), shown, finish: step.value, tokens }
    shown.push(step.value.text)
  }
}

describe('endReply', () => {
  test('lets a reply end naturally', () => {
    const whole = run({})
    expect(whole).toMatchObject({ text, finish: 'stop', tokens: [...textPieces(text)].length })
    expect(run({ maxTokens: whole.tokens }).finish).toBe('stop')
  })

  test('ends at the token limit', () => {
    expect(run({ maxTokens: 3 })).toMatchObject({ text: 'The train waits', finish: 'length', tokens: 3 })
    expect(run({ maxTokens: 0 })).toMatchObject({ text: '', finish: 'length', tokens: 0 })
  })

  test('never shows any part of a stop text, wherever its tokens end', () => {
    for (let from = 0; from < text.length; from += 1) {
      for (const length of [1, 2, 5, 9]) {
        const stop = text.slice(from, from + length)
        expect(run({ stop: [stop] }).text).toBe(text.slice(0, text.indexOf(stop)))
      }
    }
  })

  test('ends at the earliest of several stop texts', () => {
    expect(run({ stop: ['moves', 'full', 'absent'] })).toMatchObject({
      text: 'The train waits. The yard is ',
      finish: 'stop',
    })
  })

  test('shows text that only began like a stop text', () => {
    expect(run({ stop: [' is full of'] }).text).toBe(text)
    expect(run({ stop: ['moves. And more'] }).text).toBe(text)
    expect(run({ stop: ['waits. The yard is empty'], maxTokens: 6 })).toMatchObject({ finish: 'length', tokens: 6 })
  })

  test('streams token by token when no stop text is near', () => {
    expect(run({ stop: ['§'] }).shown).toEqual([...textPieces(text)].map(piece => piece.text))
  })
})
