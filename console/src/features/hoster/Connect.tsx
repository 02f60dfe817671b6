import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
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
import { codeText } from '../../texts/code-text.ts'
import { HosterKeys } from './HosterKeys.tsx'
import styles from './hoster.module.css'
import { ServerDialog } from './ServerDialog.tsx'

/** How programs of the hoster connect: keys, the agent's command, the connected agents, the server. */
export function Connect() {
  const hosterId = useHosterId()
  const hoster = useQuery(hosterQuery(hosterId))
  return (
    <Page title={t`Connect`}>
      <Loaded query={hoster} height={200}>
        {data =>
          data.endpoint.transport === 'agent' ? (
            <>
              <Agents hosterId={hosterId} />
              <HosterKeys hosterId={hosterId} />
              <RunAgent />
            </>
          ) : (
            <>
              <ServerPanel hoster={data} />
              <HosterKeys hosterId={hosterId} />
            </>
          )
        }
      </Loaded>
    </Page>
  )
}

function Agents({ hosterId }: { hosterId: string }) {
  const status = useQuery(hosterStatusQuery(hosterId))
  return (
    <Panel title={t`Agents`}>
      <Loaded query={status} height={80}>
        {({ agents }) =>
          agents.length === 0 ? (
            <EmptyState
              text={t`No agent is connected. Start one with the command below: it appears here within five seconds.`}
            />
          ) : (
            <DataTable
              label={t`Agents`}
              rows={agents}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: t`Agent`,
                  place: 'name',
                  cell: ({ id }) => <code>{id.slice(0, 8)}</code>,
                  sortBy: ({ id }) => id,
                },
                {
                  title: t`State`,
                  cell: ({ state, reason }) => (
                    <>
                      <State state={state === 'open' ? 'ok' : 'warn'}>
                        {state === 'open' ? t`connected` : codeText(state)}
                      </State>
                      {reason !== null && ` ${reason}`}
                    </>
                  ),
                  sortBy: ({ state }) => state,
                },
                { title: t`Models`, cell: ({ models }) => (models.length === 0 ? t`none` : models.join(', ')) },
                {
                  title: t`Free places`,
                  align: 'right',
                  place: 'figure',
                  cell: each => t`${countText(each.free_slots)} of ${countText(each.slots)}`,
                  sortBy: ({ free_slots }) => free_slots,
                },
                { title: t`Version`, cell: ({ version }) => version || '–', sortBy: ({ version }) => version },
                { title: t`Nodes`, align: 'right', cell: ({ nodes }) => countText(nodes) },
                {
                  title: t`Since`,
                  cell: each => <When at={each.connected_at} form="distance" />,
                  sortBy: ({ connected_at }) => connected_at,
                },
              ]}
            />
          )
        }
      </Loaded>
    </Panel>
  )
}

/** From a machine with a model server to a served request. What each step needs stands above it. */
function RunAgent() {
  return (
    <Panel title={t`Run the agent`}>
      <div className={styles.wide}>
        <p>{t`1. Make a key with the scope serve above.`}</p>
        <p>
          {t`2. Get the program: the operator of this gateway has it as a file, switchyard-VERSION.tgz. It needs Linux and Node 20 or newer. The package named switchyard on npm is another one.`}
        </p>
        <CodeBlock code={INSTALL} what={t`the command that installs the program`} />
        <p>{t`3. Save the key next to your model server:`}</p>
        <CodeBlock
          code="umask 077; cat > host.key   # paste the key, Enter, Ctrl-D"
          what={t`the command that saves the key`}
        />
        <p>{t`4. Check everything:`}</p>
        <CodeBlock code={`${agentLine()} --doctor`} what={t`the command that checks everything`} />
        <p>{t`5. Serve:`}</p>
        <CodeBlock code={agentLine()} what={t`the agent's command`} />
        <p
          className={styles.hint}
        >{t`The address of the model server is Ollama's. Use that of yours: llama.cpp, vLLM and LM Studio work too.`}</p>
      </div>
    </Panel>
  )
}

/** The package is not on npm yet: see docs/operating.md. */
const INSTALL = 'npm install --global --ignore-scripts ./switchyard-*.tgz'

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
      title={t`Server`}
      aside={
        mayManage &&
        hoster.state !== 'retired' && (
          <Button variant="default" size="compact-sm" onClick={() => setChanging(true)}>{t`Replace the server`}</Button>
        )
      }
    >
      <div className={styles.wide}>
        <Facts
          facts={{
            [t`Address`]: <code>{baseUrl}</code>,
            [t`Proof`]:
              passedAt === null ? (
                <State state="warn">{t`not proven yet`}</State>
              ) : (
                <>
                  <State state="ok">{t`proven`}</State> <When at={passedAt} />
                </>
              ),
          }}
        />
        {passedAt === null && (
          <Loaded query={verification} height={80}>
            {({ challenge: { nonce, url } }) =>
              nonce === null ? (
                <p>
                  <Trans>
                    <Link to="/h/$hosterId" params={{ hosterId: hoster.id }}>
                      Start the verification
                    </Link>
                    : it shows what to publish.
                  </Trans>
                </p>
              ) : (
                <>
                  <p>
                    <Trans>
                      Publish this at <code>{url}</code>:
                    </Trans>
                  </p>
                  <CodeBlock code={JSON.stringify({ challenge: nonce })} what={t`the challenge`} />
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
