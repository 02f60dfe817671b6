import { expect, test } from 'vitest'
import { createTextArena, createTextJoiner } from './text-arena.ts'

test('reads texts with any characters back, alone and joined', () => {
  const arena = createTextArena(64)
  const texts = ['a', 'äöü €', '𝄞'.repeat(100), 'plain']
  const kept = texts.map(text => arena.keep(text))
  expect(kept.map(arena.textOf)).toEqual(texts)
  const join = createTextJoiner()
  expect(join(kept, ',').toString()).toBe(texts.join(','))
  // A shorter text in the same memory.
  expect(join([kept[0]!], ',').toString()).toBe(texts[0])
})

test('joined texts stay valid while another joiner joins texts', () => {
  const arena = createTextArena(64)
  const [one, two] = [arena.keep('one'), arena.keep('two')]
  const joined = createTextJoiner()([one, one], ',')
  createTextJoiner()([two, two], ',')
  expect(joined.toString()).toBe('one,one')
})

test('dropping a text frees its memory and changes no other text', () => {
  const arena = createTextArena(256)
  const held = new Map(Array.from({ length: 20 }, (_, n) => [`"held ${n}"`, arena.keep(`"held ${n}"`)]))
  for (let n = 0; n < 10_000; n++) {
    const text = `"passes by ${n}"`
    const passing = arena.keep(text)
    expect(arena.textOf(passing)).toBe(text)
    arena.drop(passing)
  }
  for (const [text, kept] of held) expect(arena.textOf(kept)).toBe(text)
})

test('uses a slab again when all of its texts are dropped, in any order', () => {
  const arena = createTextArena(300)
  const slabs = new Set<unknown>()
  let held: ReturnType<typeof arena.keep>[] = []
  for (let n = 0; n < 1_000; n++) {
    const kept = arena.keep(`"text ${n}"`)
    slabs.add(kept.slab)
    held.push(kept)
    if (held.length < 10) continue
    for (const each of n % 2 ? held : held.reverse()) arena.drop(each)
    held = []
  }
  expect(slabs.size).toBeLessThan(5)
})

test('dropping a text twice frees no memory of another text', () => {
  const arena = createTextArena(1_000)
  const first = arena.keep('"first"')
  const second = arena.keep('"second"')
  arena.drop(first)
  arena.drop(first)
  arena.keep('"third"')
  expect(arena.textOf(second)).toBe('"second"')
})
