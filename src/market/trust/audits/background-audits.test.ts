import { expect, test } from 'vitest'
import { BackgroundAudits } from './background-audits.ts'

const warnings: string[] = []
const log = { warn: (_: object, message: string) => void warnings.push(message) }

/** Timers that never end by themselves. */
function timers() {
  const set: number[] = []
  let cancelled = 0
  return {
    set,
    cancelled: () => cancelled,
    after(ms: number) {
      set.push(ms)
      return () => void cancelled++
    },
  }
}

test('a job ends when its audit pauses; a shutdown ends the pause and waits for the rest', async () => {
  const { set, after, cancelled } = timers()
  const steps: string[] = []
  const audits = new BackgroundAudits(
    async (endpointId, pause) => {
      steps.push(`first of ${endpointId}`)
      await pause(90_000)
      await pause(30_000)
      steps.push('last')
    },
    { after, pauseMsMax: 60_000, log },
  )
  await audits.start('e')
  expect({ steps, set }).toEqual({ steps: ['first of e'], set: [60_000] })
  await audits.stop()
  expect(steps).toEqual(['first of e', 'last'])
  expect({ set, cancelled: cancelled() }).toEqual({ set: [60_000], cancelled: 1 })
})

test('an error before the first pause fails the job, a later one is logged', async () => {
  const { after } = timers()
  const audits = new BackgroundAudits(
    async (endpointId, pause) => {
      if (endpointId === 'late') await pause(1)
      throw new Error('broken')
    },
    { after, pauseMsMax: 60_000, log },
  )
  await expect(audits.start('early')).rejects.toThrow('broken')
  await audits.start('late')
  await audits.stop()
  expect(warnings).toEqual(['an audit of a hoster failed'])
})
