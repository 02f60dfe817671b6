import { startTestApp, type TestApp, type TestAppOptions, type TestCustomer } from './app.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { type ScriptedUpstream, startScriptedUpstream } from './scripted-upstream.ts'
import { useResource } from './use-resource.ts'

/** A gateway for the tests of this file or describe block. Pass a function for options that need another running resource. */
export function useTestApp(options: TestAppOptions | (() => TestAppOptions) = {}): TestApp {
  const start = () => startTestApp(typeof options === 'function' ? options() : options)
  return useResource(start, app => app.close())
}

/** A customer with one key; see `TestApp.customer`. */
export function useCustomer(app: TestApp, options: Parameters<TestApp['customer']>[0] = {}): TestCustomer {
  return useResource(
    () => app.customer(options),
    () => {},
  )
}

/** A scripted upstream, for the whole file or a new one for each test. */
export function useUpstream(scope?: 'file' | 'test'): ScriptedUpstream {
  return useResource(startScriptedUpstream, upstream => upstream.close(), scope)
}

/** A database with all migrations, for the whole file or a new one for each test. */
export function useTestDatabase(scope?: 'file' | 'test'): TestDatabase {
  return useResource(createTestDatabase, database => database.drop(), scope)
}
