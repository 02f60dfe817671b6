import { beforeEach, describe, expect, test } from 'vitest'
import { type LinkedItem, LinkedSet } from './collections.ts'

class Member implements LinkedItem<Member> {
  older: Member | undefined = undefined
  newer: Member | undefined = undefined
  isListed = false
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

let a: Member
let b: Member
let c: Member
beforeEach(() => {
  a = new Member('a')
  b = new Member('b')
  c = new Member('c')
})

function listOf(...members: Member[]): LinkedSet<Member> {
  const list = new LinkedSet<Member>()
  for (const member of members) list.add(member)
  return list
}

const namesOf = (list: LinkedSet<Member>) => [...list].map(member => member.name).join('')

describe('a LinkedSet', () => {
  test('keeps insertion order', () => {
    const list = listOf(b, a, c)
    expect([namesOf(list), list.size, list.oldest]).toEqual(['bac', 3, b])
  })

  test.each([
    ['the oldest', () => a, 'bc'],
    ['one between', () => b, 'ac'],
    ['the newest', () => c, 'ab'],
  ])('removes %s, which then refers to no other', (_position, chosen, left) => {
    const gone = chosen()
    const list = listOf(a, b, c)
    list.remove(gone)
    list.remove(gone)
    expect([namesOf(list), list.size]).toEqual([left, 2])
    expect({ ...gone }).toMatchObject({ older: undefined, newer: undefined, isListed: false })
    list.add(gone)
    expect(namesOf(list)).toBe(left + gone.name)
  })

  test('is empty after its only member was removed', () => {
    const list = listOf(a)
    list.remove(a)
    expect([namesOf(list), list.size, list.oldest]).toEqual(['', 0, undefined])
  })

  test('may lose the current member and gain others during iteration', () => {
    const list = listOf(a, b)
    let seen = ''
    for (const member of list) {
      seen += member.name
      if (member === a) list.remove(a)
      if (member === b && !c.isListed) list.add(c)
    }
    expect(seen).toBe('abc')
  })
})
