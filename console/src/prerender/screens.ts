/** A screen that the build prepares: the gateway's page for this address already names its files and shows its frame. */
export interface ScreenPage {
  /** The path of the route in router.tsx. */
  readonly path: string
  /** The modules that draw it, below `src/`. */
  readonly modules: readonly string[]
  /** The title until the data is there. Null: a page without a frame. */
  readonly title: string | null
}

const screen = (path: string, title: string | null, ...modules: string[]): ScreenPage => ({ path, title, modules })

const hosterShell = 'shell/HosterShell.tsx'
const hoster = (path: string, title: string, module: string) =>
  screen(`/h/$hosterId${path}`, title, hosterShell, `features/hoster/${module}`)

const operatorShell = 'shell/OperatorShell.tsx'
const operator = (path: string, title: string, module: string) =>
  screen(`/operator${path}`, title, operatorShell, `features/operator/${module}`)

const accountShell = 'shell/AccountShell.tsx'

/** All screens of router.tsx. An address without parameters stands before one with parameters that it matches too. */
export const screens: readonly ScreenPage[] = [
  screen('/', null, 'features/outside/SignInPage.tsx'),
  screen('/sign-in', null, 'features/outside/SignInPage.tsx'),
  screen('/welcome', null, 'features/outside/Welcome.tsx'),
  screen('/invite', null, 'features/outside/Invite.tsx'),
  screen('/sign-up', null, 'features/outside/SignUp.tsx'),
  screen('/verify', null, 'features/outside/Verify.tsx'),
  screen('/reset', null, 'features/outside/Reset.tsx'),
  screen('/oidc', null, 'features/outside/OidcReturn.tsx'),
  screen('/confirm-email', null, 'features/outside/ConfirmEmail.tsx'),
  screen('/status', null, 'features/status/Status.tsx'),
  screen('/c/$customerId', 'Home', 'features/home/Home.tsx'),
  screen('/c/$customerId/usage', 'Usage', 'features/usage/Usage.tsx'),
  screen('/c/$customerId/activity', 'Activity', 'features/activity/Activity.tsx'),
  screen(
    '/c/$customerId/activity/$requestId',
    'Activity',
    'features/activity/Activity.tsx',
    'features/activity/Receipt.tsx',
  ),
  screen('/c/$customerId/keys', 'Keys', 'features/keys/Keys.tsx'),
  screen('/c/$customerId/credits', 'Credits', 'features/credits/Credits.tsx'),
  screen('/c/$customerId/models', 'Models', 'features/models/Models.tsx'),
  screen('/c/$customerId/playground', 'Playground', 'features/playground/Playground.tsx'),
  screen('/c/$customerId/settings', 'Settings', 'features/settings/Settings.tsx'),
  screen('/c/$customerId/settings/$tab', 'Settings', 'features/settings/Settings.tsx'),
  screen('/account', 'Your account', accountShell, 'features/settings/YourAccount.tsx'),
  screen('/h/apply', 'Become a hoster', accountShell, 'features/hoster/Apply.tsx'),
  hoster('', 'Overview', 'Overview.tsx'),
  hoster('/offers', 'Offers', 'Offers.tsx'),
  hoster('/traffic', 'Traffic', 'Traffic.tsx'),
  hoster('/trust', 'Trust', 'Trust.tsx'),
  hoster('/earnings', 'Earnings', 'Earnings.tsx'),
  hoster('/connect', 'Connect', 'Connect.tsx'),
  hoster('/settings', 'Settings', 'HosterSettings.tsx'),
  operator('', 'Overview', 'Overview.tsx'),
  operator('/customers', 'Customers', 'Customers.tsx'),
  operator('/customers/$customerId', 'Customer', 'Customer.tsx'),
  operator('/models', 'Models', 'Models.tsx'),
  operator('/hosters', 'Hosters', 'Hosters.tsx'),
  operator('/hosters/$hosterId', 'Hoster', 'Hoster.tsx'),
  operator('/payouts', 'Payouts', 'Payouts.tsx'),
  operator('/payouts/$batchId', 'Batch of payouts', 'PayoutBatch.tsx'),
  operator('/money', 'Money', 'Money.tsx'),
  operator('/usage', 'Usage', 'Usage.tsx'),
  operator('/log', 'Log', 'Log.tsx'),
  operator('/system', 'System', 'System.tsx'),
  operator('/people', 'People', 'People.tsx'),
  operator('/grants', 'Grants', 'Grants.tsx'),
]
