import { expect, test } from 'vitest'
import { endOfTurn } from './scheduler.ts'

test('waiting callers run in lockstep: all take a step before any takes the next', async () => {
  const steps: string[] = []
  const take = async (name: string) => {
    await new Promise<void>(endOfTurn)
    steps.push(`${name}1`)
    await undefined
    steps.push(`${name}2`)
  }
  setImmediate(() => steps.push('next'))
  await Promise.all(['a', 'b', 'c'].map(take))
  expect(steps).toEqual(['next', 'a1', 'b1', 'c1', 'a2', 'b2', 'c2'])
})

test('a caller that registers during the callbacks waits for the next turn', async () => {
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
