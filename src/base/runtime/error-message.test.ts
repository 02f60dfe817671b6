import { expect, test } from 'vitest'
import { errorMessage } from './error-message.ts'

async function startAndFail(): Promise<void> {
  await using started = new AsyncDisposableStack()
  for (const place of ['database', 'server']) {
    started.defer(() => {
      throw new Error(`The ${place} did not stop.`)
    })
  }
  throw new Error('The port is taken.')
}

test('the first failure comes first, followed by the failure of its clean-up', async () => {
  const error = await startAndFail().catch(thrown => thrown)
  expect(errorMessage(error).split('\n')).toEqual([
    'The port is taken.',
    'The server did not stop.',
    'The database did not stop.',
  ])
  expect(errorMessage(new Error('It failed.'))).toBe('It failed.')
  expect(errorMessage('text')).toBe('text')
})
