import { spawnSync } from 'node:child_process'
import { afterEach, describe, expect, it } from 'vitest'
import { armFailpoints, failpoint, parseFailpoints } from './failpoint.ts'

afterEach(() => armFailpoints([]))

describe('SWITCHYARD_FAILPOINTS', () => {
  it('is a list of places, each with an action and an optional count', () => {
    expect(parseFailpoints('answer-sent:kill, drain-idle:hit=3:stop,relay-mid-stream:delay=250')).toEqual([
      { name: 'answer-sent', hit: null, action: 'kill' },
      { name: 'drain-idle', hit: 3, action: 'stop' },
      { name: 'relay-mid-stream', hit: null, action: 250 },
    ])
  })

  it.each([
    '',
    'answer-sent',
    'nowhere:kill',
    'answer-sent:hit=0:kill',
    'answer-sent:explode',
    'answer-sent:kill,',
    'toString:kill',
  ])('is not %j', text => expect(parseFailpoints(text)).toBeUndefined())
})

describe('a failpoint', () => {
  it('does nothing unless it is armed', () => {
    expect(() => failpoint('answer-sent')).not.toThrow()
    armFailpoints([{ name: 'drain-idle', hit: null, action: 'throw' }])
    expect(() => failpoint('answer-sent')).not.toThrow()
  })

  it('acts only at its count, or every time', () => {
    armFailpoints([
      { name: 'answer-sent', hit: 2, action: 'throw' },
      { name: 'drain-idle', hit: null, action: 'throw' },
    ])
    const throws = (name: 'answer-sent' | 'drain-idle') => {
      try {
        failpoint(name)
        return false
      } catch {
        return true
      }
    }
    expect([1, 2, 3].map(() => throws('answer-sent'))).toEqual([false, true, false])
    expect([1, 2, 3].map(() => throws('drain-idle'))).toEqual([true, true, true])
  })

  it('blocks the process for the given time', () => {
    armFailpoints([{ name: 'answer-sent', hit: 1, action: 20 }])
    const startedMs = performance.now()
    failpoint('answer-sent')
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(19)
  })

  it('kills immediately: later code does not run', () => {
    const { signal, stdout, stderr } = runArmed('answer-sent:hit=2:kill')
    expect({ signal, stdout, stderr }).toEqual({
      signal: 'SIGKILL',
      stdout: 'passed once\n',
      stderr: '{"failpoint":"answer-sent","action":"kill"}\n',
    })
  })
})

function runArmed(list: string) {
  const script = `
    const { armFailpoints, failpoint, parseFailpoints } = await import(${JSON.stringify(new URL('./failpoint.ts', import.meta.url).href)})
    const { writeSync } = await import('node:fs')
    armFailpoints(parseFailpoints(${JSON.stringify(list)}))
    failpoint('answer-sent')
    writeSync(1, 'passed once\\n')
    failpoint('answer-sent')
    writeSync(1, 'passed twice\\n')`
  return spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
}
