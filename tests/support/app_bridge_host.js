// A host in a web page: the official client and AppBridge, and a frame for the panel. `T` tells a test what happened.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { AppBridge, PostMessageTransport, isToolVisibilityAppOnly } from "@modelcontextprotocol/ext-apps/app-bridge";

const INFO = { name: "bridge-host", version: "1" };
const UI = { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } };
const FROM_HOST = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
  + "img-src 'self' data:; media-src 'self' data:; connect-src 'none'";
const asked = new URLSearchParams(location.search);
window.T = { said: [], modelSaw: "", modelTools: [], opened: false, error: null, call: null };

async function open() {
  const client = new Client(INFO, { capabilities: { extensions: UI } });
  await client.connect(new StreamableHTTPClientTransport(new URL("/mcp", location.href)));
  const { tools } = await client.listTools();
  T.modelTools = tools.filter((tool) => !isToolVisibilityAppOnly(tool)).map((tool) => tool.name);
  T.call = (name, given) => client.callTool({ name, arguments: given });
  const uri = tools.find((tool) => tool.name === "plan_and_execute")._meta.ui.resourceUri;
  const html = (await client.readResource({ uri })).contents[0].text;

  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts";
  document.body.append(frame);
  const can = { serverTools: {}, serverResources: {}, openLinks: {}, updateModelContext: { text: {} }, message: { text: {} } };
  const hostContext = { theme: asked.get("theme") ?? "light", displayMode: "inline", availableDisplayModes: ["inline"] };
  const bridge = new AppBridge(client, INFO, can, { hostContext });
  bridge.onsizechange = ({ height }) => { if (height) frame.style.height = `${height}px`; };
  bridge.onupdatemodelcontext = async (told) => { T.said.push(told); return {}; };
  bridge.onmessage = async (told) => { T.said.push(told); return {}; };
  T.theme = (theme) => bridge.setHostContext({ ...hostContext, theme });
  T.close = () => bridge.teardownResource({});
  const ready = new Promise((resolve) => { bridge.oninitialized = resolve; });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  const policy = `<meta http-equiv="Content-Security-Policy" content="${FROM_HOST}">`;
  frame.srcdoc = html.replace("<head>", `<head>${policy}`);
  await ready;

  const given = { goal: asked.get("goal"), wait_seconds: 20 };
  bridge.sendToolInput({ arguments: given });
  const result = await T.call("plan_and_execute", given);
  const { content, structuredContent } = result;
  T.modelSaw = JSON.stringify({ content, structuredContent });
  T.run = structuredContent;
  T.key = result._meta["steprelay/panel"].key;
  bridge.sendToolResult(asked.get("keeps_meta") ? { content, structuredContent } : result);
  T.opened = true;
}
open().catch((error) => { T.error = String(error?.stack ?? error); });
