import { expect, test } from 'vitest'
import { type HosterState, hosterActors, hosterStates, mayChangeState, nextStates } from './hoster-state.ts'

// The actors that may change the row's state to the column's: h the hoster, o the operator, s the gateway itself.
const table = `
            applied  pending  verified  active  paused  suspended  retired
applied     -        hos      -         o       -       -          ho
pending     -        -        os        o       -       o          ho
verified    -        hos      -         os      -       o          ho
active      -        hos      -         -       ho      os         ho
paused      -        hos      -         ho      -       os         ho
suspended   -        o        -         o       -       -          o
retired     -        -        -         -       -       -          -
`
const [head, ...rows] = table
  .trim()
  .split('\n')
  .map(line => line.trim().split(/ +/))
const pairs = rows.flatMap(([from, ...cells]) => cells.map((actors, index) => [from, head![index], actors] as const))

test('the table names every pair of states once', () => {
  expect(head).toEqual([...hosterStates])
  expect(rows.map(([from]) => from)).toEqual([...hosterStates])
  expect(pairs).toHaveLength(hosterStates.length ** 2)
})

test.each(pairs)('%s to %s: %s', (from, to, actors) => {
  const allowed = hosterActors.filter(actor => mayChangeState(from as HosterState, to as HosterState, actor))
  expect(allowed.map(actor => actor[0]).join('') || '-').toBe(actors)
})

test('lists the states that an actor may choose', () => {
  expect(nextStates('active', 'hoster')).toEqual(['pending', 'paused', 'retired'])
  expect(nextStates('retired', 'operator')).toEqual([])
})
