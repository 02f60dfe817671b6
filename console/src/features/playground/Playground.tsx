import { Button, Checkbox, SegmentedControl, Select, Textarea } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useSearch } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { modelsQuery } from '../../api/queries.ts'
import { readAgain } from '../../api/query-client.ts'
import { Problem } from '../../api/request.ts'
import { readAmount } from '../../format/typed-number.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { CodeBlock, CodeTabs } from '../../parts/CodeBlock.tsx'
import { chatCode } from '../../parts/chat-code.ts'
import { Page } from '../../parts/Page.tsx'
import { ProblemBlock } from '../../parts/ProblemBlock.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import { ChatSettings, noChatInput, parametersOf } from './ChatSettings.tsx'
import styles from './playground.module.css'
import { withPlaygroundKey } from './playground-key.ts'
import { readPlaygroundSearch, tiers } from './playground-search.ts'
import { Quote } from './Quote.tsx'
import { type ChatStart, streamChat } from './stream-chat.ts'
import { type Message, Talk } from './Talk.tsx'

/** Talks to a model like any program, and shows what each answer costs. The talk is lost with the tab. */
export function Playground() {
  const customerId = useCustomerId()
  const { mayKeys } = useRights()
  const client = useQueryClient()
  const models = useQuery(modelsQuery(customerId))
  const [linked] = useState(readPlaygroundSearch(useSearch({ strict: false })))
  const [model, setModel] = useState<string | null>(linked.model ?? null)
  const [tier, setTier] = useState<string>(linked.tier ?? 'balanced')
  const [isPrivate, setPrivate] = useState(false)
  const [isTrusted, setTrusted] = useState(false)
  const [maxCost, setMaxCost] = useState('')
  const [input, setInput] = useState(noChatInput)
  const [prompt, setPrompt] = useState(linked.prompt ?? '')
  // A link alone asks the gateway for nothing, not even for a quote.
  const [isTouched, setTouched] = useState(false)
  const [messages, setMessages] = useState<readonly Message[]>([])
  const [problem, setProblem] = useState<unknown>(null)
  const [shown, setShown] = useState('response')
  const running = useRef<AbortController | null>(null)
  const [isRunning, setRunning] = useState(false)
  const chosen = model ?? models.data?.data.find(({ features }) => features.includes('chat'))?.id ?? 'auto'
  const names = new Set(['auto', chosen, ...(models.data?.data.map(({ id }) => id) ?? [])])
  const bodyOf = (talk: readonly Message[]) => ({
    model: chosen,
    messages: [
      ...(input.system.trim() === '' ? [] : [{ role: 'system', content: input.system }]),
      ...talk.map(({ role, content }) => ({ role, content })),
    ],
    ...parametersOf(input),
    tier,
    ...(isPrivate && { privacy_mode: true }),
    ...(isTrusted && { trusted_only: true }),
    ...(maxCost.trim() !== '' && { max_cost_usd: amountOf(maxCost) }),
  })
  const next = bodyOf([...messages, { role: 'user', content: prompt }])

  async function send() {
    const talk: Message[] = [...messages, { role: 'user', content: prompt }]
    const answer: Message = { role: 'assistant', content: '', model: chosen }
    setMessages([...talk, answer])
    setPrompt('')
    setProblem(null)
    setRunning(true)
    setShown('response')
    const startedMs = performance.now()
    const abort = new AbortController()
    running.current = abort
    let text = ''
    let start: ChatStart = { requestId: null, provider: null }
    const show = (end?: Message['end']) => setMessages([...talk, { ...answer, content: text, ...(end && { end }) }])
    const listener = {
      signal: abort.signal,
      onStart(begun: ChatStart) {
        start = begun
      },
      onText(piece: string) {
        text += piece
        show()
      },
    }
    try {
      const end = await withPlaygroundKey(customerId, key => streamChat(key, bodyOf(talk), listener))
      show({ ...end, elapsedMs: performance.now() - startedMs, isStopped: false })
    } catch (error) {
      if (abort.signal.aborted) {
        show({ ...start, usage: null, elapsedMs: performance.now() - startedMs, isStopped: true })
      } else {
        setProblem(error)
        // The prompt comes back, so that nothing is lost.
        setMessages(messages)
        setPrompt(prompt)
      }
    } finally {
      setRunning(false)
      for (const area of ['credits', 'usage', 'activity', 'keys', 'key-spend'])
        void readAgain(client, { queryKey: [area] })
    }
  }

  return (
    <Page
      title="Playground"
      actions={
        messages.length > 0 && (
          <Button variant="default" disabled={isRunning} onClick={() => setMessages([])}>
            New talk
          </Button>
        )
      }
    >
      <section className={styles.choices} aria-label="Routing">
        <Select label="Model" searchable data={[...names]} value={chosen} onChange={setModel} />
        <Select label="Tier" data={[...tiers]} value={tier} onChange={value => setTier(value ?? 'balanced')} />
        <AmountField label="Most it may cost, USD" placeholder="no limit" value={maxCost} onText={setMaxCost} />
        <Checkbox label="Private" checked={isPrivate} onChange={event => setPrivate(event.currentTarget.checked)} />
        <Checkbox
          label="Trusted hosters"
          checked={isTrusted}
          onChange={event => setTrusted(event.currentTarget.checked)}
        />
      </section>
      <ChatSettings input={input} onChange={setInput} />
      <div>
        <SegmentedControl
          aria-label="View"
          data={[
            { value: 'request', label: 'Request' },
            { value: 'response', label: 'Response' },
            { value: 'code', label: 'Code' },
          ]}
          value={shown}
          onChange={setShown}
        />
      </div>
      {shown === 'request' && <CodeBlock code={JSON.stringify(next, null, 2)} what="the request" />}
      {shown === 'code' && <CodeTabs examples={chatCode(next)} />}
      {shown === 'response' && <Talk customerId={customerId} messages={messages} isRunning={isRunning} />}
      {problem !== null && <ProblemBlock error={problem instanceof Problem ? problem : new Error(String(problem))} />}
      <form
        className={styles.prompt}
        onFocus={() => setTouched(true)}
        onSubmit={event => {
          event.preventDefault()
          if (!isRunning && prompt.trim() !== '') void send()
        }}
      >
        <Textarea
          label="Prompt"
          description={
            linked.prompt !== undefined && prompt === linked.prompt
              ? 'A link filled this in. Read it before you send it.'
              : undefined
          }
          minRows={2}
          maxRows={12}
          value={prompt}
          onChange={event => setPrompt(event.currentTarget.value)}
          onKeyDown={event => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit()
          }}
        />
        {isRunning ? (
          <Button variant="default" onClick={() => running.current?.abort()}>
            Stop
          </Button>
        ) : (
          <Button
            type="submit"
            disabled={!mayKeys || prompt.trim() === ''}
            title={mayKeys ? 'Ctrl+Enter' : 'Only owners and developers of this customer may use the playground.'}
          >
            Send
          </Button>
        )}
        <Quote customerId={customerId} body={mayKeys && isTouched && prompt.trim() !== '' ? next : null} />
      </form>
    </Page>
  )
}

/** Returns what is no amount as it is, so that the gateway refuses it in its own words. */
function amountOf(text: string): number | string {
  const usd = Number(readAmount(text))
  return Number.isNaN(usd) ? text : usd
}
