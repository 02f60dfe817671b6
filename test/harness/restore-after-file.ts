import { afterAll, vi } from 'vitest'

// The files of a run share processes: a clock or function that one file replaced would stay replaced for the next ones.
afterAll(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
  vi.unstubAllGlobals()
  vi.unstubAllEnvs()
})
