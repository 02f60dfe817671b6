import { describe, expect, test } from 'vitest'
import { sayPieces } from './demo-language.ts'
import { endReply } from './end-reply.ts'

const text = 'The train waits. The yard is full. Nothing moves.'

function run(limits: { maxTokens?: number; stop?: string[] }, said = text) {
  let tokens = 0
  const reply = endReply(
    sayPieces(said),
    { maxTokens: limits.maxTokens ?? 1_000, stop: limits.stop ?? [], naturally: 'stop' },
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
  test('lets a reply end by itself', () => {
    const whole = run({})
    expect(whole).toMatchObject({ text, finish: 'stop', tokens: [...sayPieces(text)].length })
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

  test('takes the earliest of several stop texts', () => {
    expect(run({ stop: ['moves', 'full', 'absent'] })).toMatchObject({
      text: 'The train waits. The yard is ',
      finish: 'stop',
    })
  })

  test('shows what only looked like a stop text', () => {
    expect(run({ stop: [' is full of'] }).text).toBe(text)
    expect(run({ stop: ['moves. And more'] }).text).toBe(text)
    expect(run({ stop: ['waits. The yard is empty'], maxTokens: 6 })).toMatchObject({ finish: 'length', tokens: 6 })
  })

  test('streams token by token where no stop text is near', () => {
    expect(run({ stop: ['§'] }).shown).toEqual([...sayPieces(text)].map(piece => piece.text))
  })
})
