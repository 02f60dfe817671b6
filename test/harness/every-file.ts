import fc from 'fast-check'
import { afterAll, vi } from 'vitest'

// Every run tries the same random cases. A run that fails with a new case would blame a change that has nothing to do with it;
// searches for new cases change the seed here, or set one in the property.
fc.configureGlobal({ seed: 2_026 })

// The files of a run share processes: a clock or function that one file replaced would stay replaced for the next ones.
afterAll(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
  vi.unstubAllGlobals()
  vi.unstubAllEnvs()
})
