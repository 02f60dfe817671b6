import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { hosterQuery, hosterStatusQuery, type OwnHoster, verificationQuery } from '../../api/hoster-queries.ts'
import { countText } from '../../format/number-text.ts'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { useHosterId, useHosterRights } from '../../shell/use-hoster.ts'
import { HosterKeys } from './HosterKeys.tsx'
import styles from './hoster.module.css'
import { ServerDialog } from './ServerDialog.tsx'

/** How programs of the hoster connect: keys, the agent's command, the connected agents, the server. */
export function Connect() {
  const hosterId = useHosterId()
  const hoster = useQuery(hosterQuery(hosterId))
  return (
    <Page title="Connect">
      <Loaded query={hoster} height={200}>
        {data =>
          data.endpoint.transport === 'agent' ? <AgentPanels hosterId={hosterId} /> : <ServerPanel hoster={data} />
        }
      </Loaded>
      <HosterKeys hosterId={hosterId} />
    </Page>
  )
}

function AgentPanels({ hosterId }: { hosterId: string }) {
  const status = useQuery(hosterStatusQuery(hosterId))
  return (
    <>
      <Panel title="Agents">
        <Loaded query={status} height={80}>
          {({ agents }) =>
            agents.length === 0 ? (
              <EmptyState text="No agent is connected. Start one with the command below: it appears here within five seconds." />
            ) : (
              <DataTable
                label="Agents"
                rows={agents}
                keyOf={({ id }) => id}
                columns={[
                  { title: 'Agent', place: 'name', cell: ({ id }) => <code>{id.slice(0, 8)}</code> },
                  {
                    title: 'State',
                    cell: ({ state, reason }) => (
                      <>
                        <State state={state === 'open' ? 'ok' : 'warn'}>{state === 'open' ? 'connected' : state}</State>
                        {reason !== null && ` ${reason}`}
                      </>
                    ),
                  },
                  { title: 'Models', cell: ({ models }) => (models.length === 0 ? 'none' : models.join(', ')) },
                  {
                    title: 'Free places',
                    align: 'right',
                    place: 'figure',
                    cell: each => `${countText(each.free_slots)} of ${countText(each.slots)}`,
                  },
                  { title: 'Version', isLabelled: true, cell: ({ version }) => version || '–' },
                  { title: 'Nodes', align: 'right', isLabelled: true, cell: ({ nodes }) => countText(nodes) },
                  { title: 'Since', isLabelled: true, cell: each => <When at={each.connected_at} form="distance" /> },
                ]}
              />
            )
          }
        </Loaded>
      </Panel>
      <Panel title="Run the agent">
        <div className={styles.wide}>
          <p>Make a key with the scope serve below, save it next to your model server, check, then serve:</p>
          <CodeBlock
            code="umask 077; cat > host.key   # paste the key, Enter, Ctrl-D"
            what="the command that saves the key"
          />
          <CodeBlock code={`${agentLine()} --doctor`} what="the command that checks everything" />
          <CodeBlock code={agentLine()} what="the agent's command" />
          <p className={styles.hint}>
            The address of the model server is Ollama's. Use that of yours: llama.cpp, vLLM and LM Studio work too.
          </p>
        </div>
      </Panel>
    </>
  )
}

function agentLine(): string {
  return `switchyard host --gateway ${location.origin} --key-file host.key --upstream http://127.0.0.1:11434/v1`
}

function ServerPanel({ hoster }: { hoster: OwnHoster }) {
  const { base_url: baseUrl, challenge_passed_at: passedAt } = hoster.endpoint
  const { mayManage } = useHosterRights()
  const verification = useQuery(verificationQuery(hoster.id))
  const [isChanging, setChanging] = useState(false)
  return (
    <Panel
      title="Server"
      aside={
        mayManage &&
        hoster.state !== 'retired' && (
          <Button variant="default" size="compact-sm" onClick={() => setChanging(true)}>
            Replace the server
          </Button>
        )
      }
    >
      <div className={styles.wide}>
        <Facts
          facts={{
            Address: <code>{baseUrl}</code>,
            Proof:
              passedAt === null ? (
                <State state="warn">not proven yet</State>
              ) : (
                <>
                  <State state="ok">proven</State> <When at={passedAt} />
                </>
              ),
          }}
        />
        {passedAt === null && (
          <Loaded query={verification} height={80}>
            {({ challenge: { nonce, url } }) =>
              nonce === null ? (
                <p>
                  <Link to="/h/$hosterId" params={{ hosterId: hoster.id }}>
                    Start the verification
                  </Link>
                  : it shows what to publish.
                </p>
              ) : (
                <>
                  <p>
                    Publish this at <code>{url}</code>:
                  </p>
                  <CodeBlock code={JSON.stringify({ challenge: nonce })} what="the challenge" />
                </>
              )
            }
          </Loaded>
        )}
      </div>
      {isChanging && <ServerDialog hoster={hoster} onClose={() => setChanging(false)} />}
    </Panel>
  )
}
