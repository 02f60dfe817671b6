import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'

/**
 * Starts a resource before the tests of this file or describe block and stops it after them, or before and after each
 * test. The returned object has the properties of the running resource; before the first start it has none.
 */
export function useResource<Resource extends object>(
  start: () => Resource | Promise<Resource>,
  stop: (resource: Resource) => unknown,
  scope: 'file' | 'test' = 'file',
): Resource {
  const [before, after] = scope === 'file' ? [beforeAll, afterAll] : [beforeEach, afterEach]
  const handle = {} as Resource
  let running: Resource | undefined
  before(async () => {
    running = await start()
    Object.assign(handle, running)
  })
  after(async () => {
    const stopping = running
    running = undefined
    if (stopping !== undefined) await stop(stopping)
  })
  return handle
}
