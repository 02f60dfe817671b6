import { t } from '@lingui/core/macro'
import { FirstFactorCommand } from '../../parts/FirstFactorCommand.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { useSession } from '../../shell/use-session.ts'
import { Passkeys } from './Passkeys.tsx'
import { SecondFactor } from './SecondFactor.tsx'

/** The passkeys and the app of the person. An operator whose session may add neither sees how to add the first one. */
export function Factors() {
  const { first_factor_command: command } = useSession()
  if (command !== null) {
    return (
      <Panel title={t`Second factor`}>
        <FirstFactorCommand command={command} />
      </Panel>
    )
  }
  return (
    <>
      <Passkeys />
      <SecondFactor />
    </>
  )
}
