import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { openClient } from '../harness/raw-client.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useDemoApp } from '../harness/use-demo-app.ts'
import { useCustomer } from '../harness/use-test-app.ts'

const app = useDemoApp()
const customer = useCustomer(app)
const portOf = () => Number(new URL(app.url).port)

const body = JSON.stringify({ model: 'demo', max_tokens: 4, messages: [{ role: 'user', content: 'Hi' }] })
const post = (key: string, path = '/v1/chat/completions') =>
  `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
const get = 'GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n'
const statuses = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))

describe('a connection whose key is refused', () => {
  test.each([
    ['one request after the other, at the plain server', post('wrong')],
    ['one request after the other, at node:http', get],
  ])('is closed by the fifth answer 401: %s', async (_what, request) => {
    const client = openClient(portOf())
    for (let count = 1; count <= 5; count++) {
      client.socket.write(request)
      await vi.waitFor(() => expect(statuses(client.read)).toHaveLength(count), WAIT_OPTIONS)
    }
    await vi.waitFor(() => expect(client.isEnded).toBe(true), WAIT_OPTIONS)
    expect(statuses(client.read)).toEqual([401, 401, 401, 401, 401])
    expect(client.read.match(/connection: close/gi)).toHaveLength(1)
    expect(client.read.indexOf('connection: close')).toBeGreaterThan(client.read.lastIndexOf('HTTP/1.1'))
  })

  test.each([
    ['without a valid key', post('wrong'), 401],
    ['for an address that does not exist', 'GET /v1/none HTTP/1.1\r\nhost: gateway\r\n\r\n', 404],
    ['with a method that the address does not have', 'PUT /v1/models HTTP/1.1\r\nhost: gateway\r\n\r\n', 405],
    ['for the name of another server', 'GET /v1/none HTTP/1.1\r\nhost: other.example\r\n\r\n', 400],
    ['of 22 bytes', 'GET /a HTTP/1.1\r\nhost:\r\n\r\n', 404],
  ])('gets at most five answers to 200 pipelined requests: %s', async (_what, request, status) => {
    const socket = connect(portOf(), '127.0.0.1').setEncoding('latin1')
    onTestFinished(() => void socket.destroy())
    let read = ''
    socket.on('data', piece => {
      read += piece
    })
    // Closing with unread requests sends a reset.
    socket.on('error', () => {})
    socket.write(request.repeat(200))
    await once(socket, 'close')
    expect(statuses(read).length).toBeLessThanOrEqual(5)
    expect(new Set(statuses(read)).difference(new Set([status]))).toEqual(new Set())
  })

  test('stays open for a customer with a key', async () => {
    const client = openClient(portOf())
    for (let count = 1; count <= 7; count++) {
      client.socket.write(post(customer.key))
      await vi.waitFor(() => expect(statuses(client.read)).toHaveLength(count), WAIT_OPTIONS)
    }
    expect(statuses(client.read)).toEqual(Array(7).fill(200))
    expect(client.isEnded).toBe(false)
  })
})

describe('malformed bytes behind a request', () => {
  test('are refused after its answer', async () => {
    const client = openClient(portOf())
    client.socket.write(`${post(customer.key)}THIS IS NOT HTTP\r\n\r\n`)
    await vi.waitFor(() => expect(client.isEnded).toBe(true), WAIT_OPTIONS)
    expect(statuses(client.read)).toEqual([200, 400])
    expect(client.read).toContain('chat.completion')
  })

  test('are refused at once when they belong to the body of the request itself', async () => {
    const client = openClient(portOf())
    const head = post(customer.key)
      .split('\r\n\r\n')[0]!
      .replace(/content-length: \d+/, 'transfer-encoding: chunked')
    client.socket.write(`${head}\r\n\r\nzz\r\n`)
    await vi.waitFor(() => expect(client.isEnded).toBe(true), WAIT_OPTIONS)
    expect(statuses(client.read)).toEqual([400])
  })
})

test.each(['\xa0', '\xe9', '\x85'])('a key that is followed by the byte %j is refused', async byte => {
  const client = openClient(portOf())
  client.socket.write(post(`${customer.key}${byte}`), 'latin1')
  await vi.waitFor(() => expect(statuses(client.read)).toEqual([401]), WAIT_OPTIONS)
})
