import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { AllowedHosts } from './allowed-hosts.ts'
import { startMetricsServer } from './metrics-server.ts'

async function start(text: () => Promise<string>, port = 0) {
  const log = { info: vi.fn(), warn: vi.fn() }
  const allowedHosts = new AllowedHosts([])
  const stop = await startMetricsServer({ host: '127.0.0.1', port, text, allowedHosts, log })
  onTestFinished(stop)
  const bound: number = log.info.mock.calls[0]?.[0].port
  const get = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`http://127.0.0.1:${bound}${path}`, init)
    return { status: response.status, type: response.headers.get('content-type'), text: await response.text() }
  }
  return { get, log, port: bound }
}

test('serves the metrics at /metrics, and nothing else', async () => {
  const { get } = await start(async () => 'up 1\n')
  const metrics = { status: 200, type: 'text/plain; version=0.0.4; charset=utf-8', text: 'up 1\n' }
  expect(await get('/metrics')).toEqual(metrics)
  expect(await get('/metrics', { method: 'HEAD' })).toEqual({ ...metrics, text: '' })
  expect(await get('/metrics', { method: 'POST' })).toMatchObject({ status: 404 })
  for (const path of ['/', '/v1/models', '/metrics/']) expect(await get(path)).toMatchObject({ status: 404 })
})

test('answers no website that resolves its name to this server', async () => {
  const { port } = await start(async () => 'up 1\n')
  // fetch sets the Host header itself.
  const { request } = await import('node:http')
  const status = await new Promise(resolve => {
    request({ port, path: '/metrics', headers: { host: 'evil.net' } }, response => {
      response.resume()
      resolve(response.statusCode)
    }).end()
  })
  expect(status).toBe(400)
})

test('a failure to read the metrics is logged', async () => {
  const { get, log } = await start(() => Promise.reject(new Error('no')))
  expect(await get('/metrics')).toMatchObject({ status: 500, text: expect.not.stringContaining('no ') })
  expect(log.warn).toHaveBeenCalledWith({ err: new Error('no') }, 'the metrics could not be read')
})

test('a taken port leaves the gateway without metrics, and the log says so', async () => {
  const other = createServer()
  await new Promise<void>(resolve => other.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void other.close())
  const { port } = other.address() as AddressInfo
  const { log } = await start(async () => '', port)
  expect(log.info).not.toHaveBeenCalled()
  expect(log.warn).toHaveBeenCalledWith(
    { host: '127.0.0.1', port, reason: 'the port is taken' },
    'metrics are not served; set METRICS_PORT or metrics.port to another port',
  )
})
