import { expect, test } from 'vitest'
import { endOfTurn } from './end-of-turn.ts'

test('all who wait go on together: each step is taken by all of them before the next', async () => {
  const steps: string[] = []
  const take = async (who: string) => {
    await new Promise<void>(endOfTurn)
    steps.push(`${who}1`)
    await undefined
    steps.push(`${who}2`)
  }
  setImmediate(() => steps.push('next'))
  await Promise.all(['a', 'b', 'c'].map(take))
  expect(steps).toEqual(['next', 'a1', 'b1', 'c1', 'a2', 'b2', 'c2'])
})

test('who comes while others are called back waits for the next turn', async () => {
  const order: string[] = []
  await new Promise<void>(resolve => {
    endOfTurn(() => {
      endOfTurn(() => {
        order.push('later')
        resolve()
      })
    })
    endOfTurn(() => order.push('now'))
  })
  expect(order).toEqual(['now', 'later'])
})
